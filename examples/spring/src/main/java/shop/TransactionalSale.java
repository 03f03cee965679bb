package shop;

import java.util.Optional;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.springframework.context.annotation.Profile;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;

/** The lock is inside the transaction: Spring commits after the method has returned, and by then the lock is free. */
@Service
@Profile("transactional")
class TransactionalSale implements Sale {
  private final Stock stock;
  private final RedissonClient redisson;

  TransactionalSale(Stock stock, RedissonClient redisson) {
    this.stock = stock;
    this.redisson = redisson;
  }

  @Override
  @Transactional
  public Optional<String> sell(long product, String key) {
    RLock lock = redisson.getLock("lock" + product);
    lock.lock();
    try {
      return stock.deduct(product);
    } finally {
      lock.unlock();
    }
  }
}
