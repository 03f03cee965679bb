package shop;

import java.util.Optional;
import java.util.UUID;
import org.springframework.context.annotation.Profile;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.transaction.interceptor.TransactionAspectSupport;

/** No lock: the UPDATE itself checks the stock, in one transaction with the order and its key. */
@Service
@Profile("mended")
class MendedSale implements Sale {
  private final JdbcTemplate jdbc;

  MendedSale(JdbcTemplate jdbc) {
    this.jdbc = jdbc;
  }

  @Override
  @Transactional
  public Optional<String> sell(long product, String key) {
    String order = UUID.randomUUID().toString();
    // The unique key makes a repetition wait here until the first request has ended.
    int ordered = jdbc.update(
        "INSERT IGNORE INTO orders (id, product_id, idempotency_key) VALUES (?, ?, ?)", order, product, key);
    if (ordered == 0) {
      return Optional.of(jdbc.queryForObject("SELECT id FROM orders WHERE idempotency_key = ?", String.class, key));
    }
    if (jdbc.update("UPDATE products SET stock = stock - 1 WHERE id = ? AND stock > 0", product) == 0) {
      TransactionAspectSupport.currentTransactionStatus().setRollbackOnly(); // sold out: the order goes too
      return Optional.empty();
    }
    return Optional.of(order);
  }
}
