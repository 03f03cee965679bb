package shop;

import java.util.Optional;
import java.util.UUID;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.stereotype.Repository;

/** The body of every listing: read, compare, write. Only the lock around it keeps other requests out. */
@Repository
class Stock {
  private final JdbcTemplate jdbc;

  Stock(JdbcTemplate jdbc) {
    this.jdbc = jdbc;
  }

  Optional<String> deduct(long product) {
    int stock = jdbc.queryForObject("SELECT stock FROM products WHERE id = ?", Integer.class, product);
    if (stock < 1) {
      return Optional.empty();
    }
    jdbc.update("UPDATE products SET stock = ? WHERE id = ?", stock - 1, product);
    String order = UUID.randomUUID().toString();
    jdbc.update("INSERT INTO orders (id, product_id) VALUES (?, ?)", order, product);
    return Optional.of(order);
  }
}
