package shop;

import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;

/** A flash sale on MySQL. The profile decides which {@link Sale} guards the stock. */
@SpringBootApplication
public class Application {
  public static void main(String[] args) {
    SpringApplication.run(Application.class, args);
  }

  /** Beans are lazy: a profile without a lock in Redis never makes this one. */
  @Bean(destroyMethod = "shutdown")
  RedissonClient redisson(@Value("${lock.redis}") String address, @Value("${lock.ms}") long lockMs) {
    var config = new Config();
    config.setLockWatchdogTimeout(lockMs);
    config.useSingleServer().setAddress(address).setConnectionMinimumIdleSize(4);
    return Redisson.create(config);
  }
}
