package shop;

import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Profile;
import org.springframework.stereotype.Service;

/** The lock ends after its lease time, whether the work has ended or not: a lease time switches the watchdog off. */
@Service
@Profile("redisson-lease")
class RedissonLeaseSale implements Sale {
  private final Stock stock;
  private final RedissonClient redisson;
  private final long leaseMs;

  RedissonLeaseSale(Stock stock, RedissonClient redisson, @Value("${lock.ms}") long leaseMs) {
    this.stock = stock;
    this.redisson = redisson;
    this.leaseMs = leaseMs;
  }

  @Override
  public Optional<String> sell(long product, String key) throws InterruptedException {
    RLock lock = redisson.getLock("lock" + product);
    if (!lock.tryLock(5000, leaseMs, TimeUnit.MILLISECONDS)) {
      throw new BusyException();
    }
    try {
      return stock.deduct(product);
    } finally {
      lock.unlock(); // throws if the lock has expired: the sale stands, and the client gets a 500
    }
  }
}
