import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/**
 * Takes locks of Redisson on command. A line of the input is "client thread operation lock milliseconds", a line of the output "client thread
 * result". The clients are given as name=lockWatchdogTimeout; a thread is made when it is first named.
 */
public final class RedissonPeer {
  public static void main(String[] args) throws Exception {
    Map<String, RedissonClient> clients = new TreeMap<>();
    for (var arg : args) {
      var named = arg.split("=");
      clients.put(named[0], client(Long.parseLong(named[1])));
    }
    Map<String, ExecutorService> threads = new ConcurrentHashMap<>();
    System.out.println("ready");
    var lines = new BufferedReader(new InputStreamReader(System.in));
    for (var line = lines.readLine(); line != null; line = lines.readLine()) {
      var word = line.split(" ");
      threads.computeIfAbsent(word[0] + word[1], name -> Executors.newSingleThreadExecutor())
          .execute(() -> System.out.println(word[0] + " " + word[1] + " " + run(clients.get(word[0]), word[2], word[3], Long.parseLong(word[4]))));
    }
    System.exit(0);
  }

  private static RedissonClient client(long watchdogTimeout) {
    var config = new Config();
    config.setLockWatchdogTimeout(watchdogTimeout);
    config.useSingleServer()
        .setAddress(System.getenv("PEER_ADDRESS"))
        .setUsername(System.getenv("PEER_USERNAME"))
        .setPassword(System.getenv("PEER_PASSWORD"))
        .setDatabase(Integer.parseInt(System.getenv("PEER_DATABASE")))
        .setConnectionMinimumIdleSize(2);
    return Redisson.create(config);
  }

  private static String run(RedissonClient client, String operation, String name, long milliseconds) {
    try {
      var lock = client.getLock(name);
      switch (operation) {
        case "tryLock":
          return String.valueOf(lock.tryLock(milliseconds, TimeUnit.MILLISECONDS));
        case "unlock":
          lock.unlock();
          return "done";
        case "forceUnlock":
          return String.valueOf(lock.forceUnlock());
        case "owner":
          return client.getId() + ":" + Thread.currentThread().getId();
        case "entries":
          return client.getMap(name, StringCodec.INSTANCE).readAllMap().toString();
        default:
          return "unknown operation";
      }
    } catch (Exception e) {
      return e.getClass().getSimpleName();
    }
  }
}
