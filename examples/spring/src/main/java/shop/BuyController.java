package shop;

import java.util.Map;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestHeader;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;

@RestController
class BuyController {
  private final Sale sale;

  BuyController(Sale sale) {
    this.sale = sale;
  }

  /** 200 sold, 409 sold out, 423 the lock was not free in time; after a 500 the sale may have happened. */
  @PostMapping("/buy")
  ResponseEntity<Map<String, String>> buy(@RequestParam long product, @RequestHeader("Idempotency-Key") String key)
      throws InterruptedException {
    return sale.sell(product, key)
        .map(order -> ResponseEntity.ok(Map.of("order_id", order)))
        .orElseGet(() -> ResponseEntity.status(409).body(Map.of("error", "sold out")));
  }
}
