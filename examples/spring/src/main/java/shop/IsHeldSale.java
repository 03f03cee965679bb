package shop;

import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Profile;
import org.springframework.stereotype.Service;

/** The guard asks after the sale: it keeps unlock() from throwing, and so nobody learns that the lock had been lost. */
@Service
@Profile("is-held")
class IsHeldSale implements Sale {
  private final Stock stock;
  private final RedissonClient redisson;
  private final long leaseMs;

  IsHeldSale(Stock stock, RedissonClient redisson, @Value("${lock.ms}") long leaseMs) {
    this.stock = stock;
    this.redisson = redisson;
    this.leaseMs = leaseMs;
  }

  @Override
  public Optional<String> sell(long product, String key) throws InterruptedException {
    RLock lock = redisson.getLock("lock" + product);
    try {
      if (!lock.tryLock(5000, leaseMs, TimeUnit.MILLISECONDS)) {
        throw new BusyException();
      }
      return stock.deduct(product);
    } finally {
      if (lock.isHeldByCurrentThread()) {
        lock.unlock();
      }
    }
  }
}
