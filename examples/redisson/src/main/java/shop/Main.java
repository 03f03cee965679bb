package shop;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RScript;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/** A flash sale: Redisson's lock with its watchdog around the sale, stock and orders in Redis. */
public final class Main {
  // Redisson sends a script again if no answer came within 3 s, though the first one may have sold already. The order's id tells the two apart.
  private static final String SELL = """
      if redis.call('LPOS', KEYS[2], ARGV[1]) then return 1 end
      if tonumber(redis.call('GET', KEYS[1])) < 1 then return 0 end
      redis.call('DECR', KEYS[1])
      redis.call('RPUSH', KEYS[2], ARGV[1])
      return 1
      """;

  private final RedissonClient redisson;
  private final boolean guarded;

  private Main(RedissonClient redisson, boolean guarded) {
    this.redisson = redisson;
    this.guarded = guarded;
  }

  /** Settings come from the environment: PORT, REDIS_ADDRESS, REDIS_PASSWORD, LOCK_WATCHDOG_MS, GUARDED. */
  public static void main(String[] args) throws IOException {
    var env = System.getenv();
    var config = new Config();
    config.setLockWatchdogTimeout(Long.parseLong(env.getOrDefault("LOCK_WATCHDOG_MS", "30000")));
    config.useSingleServer()
        .setAddress(env.getOrDefault("REDIS_ADDRESS", "redis://127.0.0.1:6379"))
        .setPassword(env.get("REDIS_PASSWORD"))
        .setConnectionMinimumIdleSize(4);
    var shop = new Main(Redisson.create(config), Boolean.parseBoolean(env.get("GUARDED")));
    var port = Integer.parseInt(env.getOrDefault("PORT", "8080"));
    var server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
    server.createContext("/buy", shop::buy);
    server.setExecutor(Executors.newCachedThreadPool());
    server.start();
  }

  private void buy(HttpExchange exchange) throws IOException {
    var product = exchange.getRequestURI().getQuery().replace("product=", "");
    try {
      RLock lock = redisson.getLock("lock:product:" + product);
      if (!lock.tryLock(3, TimeUnit.SECONDS)) {
        answer(exchange, 423, "{\"error\":\"busy\"}");
        return;
      }
      String order;
      try {
        order = guarded ? sellGuarded(product) : sell(product);
      } finally {
        if (lock.isHeldByCurrentThread()) {
          lock.unlock();
        }
      }
      if (order == null) {
        answer(exchange, 409, "{\"error\":\"sold out\"}");
      } else {
        answer(exchange, 200, "{\"order_id\":\"" + order + "\"}");
      }
    } catch (Exception e) {
      e.printStackTrace();
      answer(exchange, 500, "{\"error\":\"internal\"}");
    }
  }

  /** Reads, checks and writes the stock; only the lock keeps other requests out. */
  private String sell(String product) {
    RBucket<String> bucket = redisson.getBucket("stock:" + product, StringCodec.INSTANCE);
    int stock = Integer.parseInt(bucket.get());
    if (stock < 1) {
      return null;
    }
    bucket.set(String.valueOf(stock - 1));
    String order = UUID.randomUUID().toString();
    redisson.<String>getList("orders:" + product, StringCodec.INSTANCE).add(order);
    return order;
  }

  /** One script checks the stock, takes a unit and writes the order. */
  private String sellGuarded(String product) {
    String order = UUID.randomUUID().toString();
    Long sold = redisson.getScript(StringCodec.INSTANCE).eval(RScript.Mode.READ_WRITE, SELL, RScript.ReturnType.INTEGER,
        List.of("stock:" + product, "orders:" + product), order);
    return sold == 1 ? order : null;
  }

  private static void answer(HttpExchange exchange, int status, String body) throws IOException {
    byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
    exchange.getResponseHeaders().set("Content-Type", "application/json");
    exchange.sendResponseHeaders(status, bytes.length);
    try (var out = exchange.getResponseBody()) {
      out.write(bytes);
    }
  }
}
