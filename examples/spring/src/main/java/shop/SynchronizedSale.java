package shop;

import java.util.Optional;
import org.springframework.context.annotation.Profile;
import org.springframework.stereotype.Service;

/** A lock of this JVM. Another replica has another one. */
@Service
@Profile("synchronized")
class SynchronizedSale implements Sale {
  private final Stock stock;

  SynchronizedSale(Stock stock) {
    this.stock = stock;
  }

  @Override
  public synchronized Optional<String> sell(long product, String key) {
    return stock.deduct(product);
  }
}
