package shop;

import java.util.Optional;
import org.springframework.http.HttpStatus;
import org.springframework.web.bind.annotation.ResponseStatus;

/** Sells one unit. Each profile has one implementation. */
interface Sale {
  /** Returns the order's id, or nothing if the product is sold out. A repeated request has the same {@code key}. */
  Optional<String> sell(long product, String key) throws InterruptedException;

  /** The lock was not free in time; nothing was sold. */
  @ResponseStatus(HttpStatus.LOCKED)
  class BusyException extends RuntimeException {}
}
