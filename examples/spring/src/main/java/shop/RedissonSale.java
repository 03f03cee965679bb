package shop;

import java.util.Optional;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.springframework.context.annotation.Profile;
import org.springframework.stereotype.Service;

/** No lease time: the watchdog, a thread of this process, renews the lock for as long as the process runs. */
@Service
@Profile("redisson")
class RedissonSale implements Sale {
  private final Stock stock;
  private final RedissonClient redisson;

  RedissonSale(Stock stock, RedissonClient redisson) {
    this.stock = stock;
    this.redisson = redisson;
  }

  @Override
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
