package bench;

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import org.redisson.Redisson;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;
import org.redisson.config.SingleServerConfig;

/** One process of a window whose lock is Redisson's RLock. It reads and writes what worker.go does, a JSON value a line; names are those of Go. */
public final class Worker {
  public static final class Job {
    public String Contender, Kind, URL, Prefix;
    public int Goroutines, First, Locks;
    public long Think, Window;
    public boolean Ping;
  }

  public static final class Start {
    public long At;
  }

  public static final class Section {
    public long Number, Owner, Asked, Acquired, Leaving;
    public boolean Counts;
  }

  public static final class Report {
    public List<Section> Sections = new ArrayList<>();
    public List<Long> Pairs = new ArrayList<>(), Cut = new ArrayList<>(), Done = new ArrayList<>();
    public long Commands;
    public int Errors;
    public String First = "";
  }

  private static final ObjectMapper json =
      new ObjectMapper().configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
  private static final long LEAD = 150_000_000L; // lead in scenario.go
  private static final int WARM = 100; // acquisitions of each thread before the window; the JVM compiles meanwhile
  private static final int MAX_PAIRS = 1 << 17; // of all threads together

  private final long wall, began = System.nanoTime();
  private final Job job;
  private final URI redis;
  private final RedissonClient client;
  private final Report report = new Report();
  private final ReentrantReadWriteLock leaving = new ReentrantReadWriteLock();
  private volatile boolean over;
  private long from, to;

  private Worker(Job job) {
    Instant now = Instant.now();
    this.wall = now.getEpochSecond() * 1_000_000_000L + now.getNano();
    this.job = job;
    this.redis = URI.create(job.URL);
    Config config = new Config();
    config.setLockWatchdogTimeout(30_000);
    SingleServerConfig server = config.useSingleServer().setAddress("redis://" + redis.getHost() + ":" + redis.getPort());
    if (password() != null) {
      server.setPassword(password());
    }
    this.client = Redisson.create(config);
  }

  public static void main(String[] args) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    Job job = json.readValue(in.readLine(), Job.class);
    BlockingQueue<Start> begin = new ArrayBlockingQueue<>(1);
    Thread reader = new Thread(() -> read(in, begin));
    reader.setDaemon(true);
    reader.start();
    try {
      Worker w = new Worker(job);
      w.warm();
      say("{\"Ready\":true}");
      w.contend(begin.take().At);
      say("{\"Report\":" + json.writeValueAsString(w.report) + "}");
    } catch (Exception e) {
      say("{\"Error\":" + json.writeValueAsString("redisson: " + e) + "}");
    }
    reader.join(); // the parent ends this process by closing its input
  }

  /** Ends the process when the input does, whatever the others are doing. */
  private static void read(BufferedReader in, BlockingQueue<Start> begin) {
    try {
      for (String line = in.readLine(); line != null; line = in.readLine()) {
        begin.put(json.readValue(line, Start.class));
      }
    } catch (IOException | InterruptedException e) {
      System.err.println(e);
    }
    Runtime.getRuntime().halt(0);
  }

  private static synchronized void say(String line) {
    System.out.println(line);
    System.out.flush();
  }

  private String password() {
    String info = redis.getUserInfo();
    return info == null ? null : info.substring(info.indexOf(':') + 1);
  }

  /** In nanoseconds since 1970: the wall clock when the process began, carried on by the monotonic one. */
  private long now() {
    return wall + System.nanoTime() - began;
  }

  private void until(long at) throws InterruptedException {
    long left = at - now();
    if (left > 0) {
      Thread.sleep(left / 1_000_000, (int) (left % 1_000_000));
    }
  }

  private String key(String name) {
    return job.Prefix + "{" + name + "}";
  }

  private interface Task {
    void run(int owner) throws Exception;
  }

  private List<Thread> each(Task task) {
    List<Thread> all = new ArrayList<>();
    for (int i = 0; i < job.Goroutines; i++) {
      int owner = job.First + i;
      Thread t = new Thread(() -> {
        try {
          task.run(owner);
        } catch (Exception e) {
          failed(e);
        }
      });
      all.add(t);
      t.start();
    }
    return all;
  }

  private void warm() throws Exception {
    List<Thread> all = each(owner -> {
      RLock lock = client.getLock(key("warm:" + owner));
      RBucket<String> bucket = client.getBucket(key("warmed:" + owner), StringCodec.INSTANCE);
      for (int i = 0; i < WARM; i++) {
        lock.lock();
        bucket.set(String.valueOf(ThreadLocalRandom.current().nextInt()));
        bucket.get();
        lock.unlock();
      }
    });
    for (Thread t : all) {
      t.join();
    }
    if (report.Errors > 0) {
      throw new IllegalStateException(report.First);
    }
  }

  private void contend(long at) throws Exception {
    from = at + LEAD;
    to = from + job.Window;
    until(at);
    List<Thread> all = each(this::loop);
    until(from);
    long before = commands();
    until(to);
    report.Commands = commands() - before;
    over = true;
    leaving.writeLock().lock(); // nobody is inside
    if (!job.Kind.equals("free")) { // nobody waits for a lock of its own
      all.forEach(Thread::interrupt);
    }
    leaving.writeLock().unlock();
    for (Thread t : all) {
      t.join();
    }
  }

  /** The exception of a thread that was interrupted while it waited: Redisson wraps it now and then. */
  private static boolean interrupted(Exception e) {
    return e instanceof InterruptedException || e.getCause() instanceof InterruptedException;
  }

  private void loop(int owner) throws Exception {
    boolean free = job.Kind.equals("free");
    RLock lock = client.getLock(key(free ? "own:" + owner : "hot"));
    List<Section> sections = new ArrayList<>();
    List<Long> pairs = new ArrayList<>(), cut = new ArrayList<>();
    long done = 0;
    while (!over) {
      long asked = now();
      try {
        lock.lockInterruptibly();
      } catch (Exception e) {
        if (!over || !interrupted(e)) {
          failed(e);
        }
        if (!over) { // as worker.go: the waiter asks again, until the window ends
          pause(1_000_000);
          continue;
        }
        if (asked < to) {
          cut.add(to - asked);
        }
        break;
      }
      if (free) {
        Exception kept = unlock(lock);
        if (kept != null) {
          failed(kept);
        }
        long ended = now();
        if (from <= asked && ended < to) {
          done++;
          if (pairs.size() < MAX_PAIRS / job.Goroutines) {
            pairs.add(ended - asked);
          }
        }
        continue;
      }
      Section s = inside(lock, owner, asked, cut);
      if (s != null) {
        sections.add(s);
        done += s.Counts ? 1 : 0;
      }
      pause(job.Think);
    }
    synchronized (report) {
      report.Sections.addAll(sections);
      report.Pairs.addAll(pairs);
      report.Cut.addAll(cut);
      report.Done.add(done);
    }
  }

  /** Waits so many nanoseconds before the next acquire, at most until the window is over: then the thread is interrupted. */
  private void pause(long nanos) {
    if (nanos == 0 || over) {
      return;
    }
    try {
      Thread.sleep(nanos / 1_000_000, (int) (nanos % 1_000_000));
    } catch (InterruptedException e) {
      // over is set, so the loop ends, and what the thread has counted is reported
    }
  }

  /**
   * The critical section and the release; null where the window is over, or the section has failed. The lock is released in any case: its watchdog
   * would renew it for as long as this process lives.
   */
  private Section inside(RLock lock, int owner, long asked, List<Long> cut) {
    leaving.readLock().lock();
    try {
      Section s = new Section();
      s.Owner = owner;
      s.Asked = asked;
      s.Acquired = now();
      if (over) {
        Thread.interrupted(); // an unlock must not be cut short
        if (asked < to) {
          cut.add(to - asked);
        }
        unlock(lock); // a lock that ended with the window is no loss
        return null;
      }
      Exception wrong = null;
      try {
        RBucket<String> counter = client.getBucket(key("counter"), StringCodec.INSTANCE);
        String last = counter.get();
        s.Number = (last == null ? 0 : Long.parseLong(last)) + 1;
        counter.set(String.valueOf(s.Number));
      } catch (Exception e) {
        wrong = e;
      }
      s.Leaving = now();
      s.Counts = from <= s.Acquired && s.Acquired < to;
      Exception kept = unlock(lock);
      if (wrong != null || kept != null) {
        failed(wrong != null ? wrong : kept);
      }
      return wrong == null ? s : null;
    } finally {
      leaving.readLock().unlock();
    }
  }

  /** Releases the lock; what went wrong, or null. */
  private static Exception unlock(RLock lock) {
    try {
      lock.unlock();
      return null;
    } catch (Exception e) {
      return e;
    }
  }

  private void failed(Exception e) {
    synchronized (report) {
      report.Errors++;
      if (report.First.isEmpty()) {
        report.First = e.toString();
      }
    }
  }

  /**
   * The commands that clients have sent for locks, by Redis's own count. Redisson sends scripts and subscriptions; what scripts call inside Redis
   * is counted under other names. The first worker counts for all.
   */
  private long commands() throws IOException {
    if (job.First > 0) {
      return 0;
    }
    long sum = 0;
    try (Socket socket = new Socket(redis.getHost(), redis.getPort())) {
      String auth = password() == null ? "" : "AUTH " + password() + "\r\n";
      socket.getOutputStream().write((auth + "INFO commandstats\r\nQUIT\r\n").getBytes(StandardCharsets.UTF_8));
      String text = new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      for (String line : text.split("\r\n")) {
        if (line.matches("cmdstat_(eval|evalsha|script\\|load|s?subscribe|s?unsubscribe):.*")) {
          sum += Long.parseLong(line.replaceFirst("[^:]*:calls=(\\d+).*", "$1"));
        }
      }
    }
    return sum;
  }
}
