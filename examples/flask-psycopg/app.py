"""A flash sale: Flask, psycopg 3 with its connection pool, stock and orders in PostgreSQL at READ COMMITTED."""

import argparse
import os
import uuid

from flask import Flask, jsonify, request
from psycopg_pool import ConnectionPool

app = Flask(__name__)
options = argparse.Namespace()


@app.post("/buy")
def buy():
    product, quantity = request.json["product"], request.json.get("quantity", 1)
    with options.pool.connection() as db:  # one transaction: an exception rolls it back
        if options.guarded:
            order = guarded_sale(db, product, quantity, request.headers.get("Idempotency-Key"))
        else:
            order = sale(db, product, quantity)
    if order is None:
        return jsonify(error="sold out"), 409
    return jsonify(order_id=order)


def sale(db, product, quantity):
    """Reads, checks and writes the stock. The transaction locks the row at the UPDATE, which is after the check."""
    (stock,) = db.execute("SELECT stock FROM products WHERE id = %s", (product,)).fetchone()
    if stock < quantity:
        return None
    db.execute("UPDATE products SET stock = %s WHERE id = %s", (stock - quantity, product))
    order = uuid.uuid4()
    db.execute("INSERT INTO orders (id, product_id, quantity) VALUES (%s, %s, %s)", (order, product, quantity))
    return order


def guarded_sale(db, product, quantity, key):
    """One UPDATE checks the stock and takes the units. A key that comes again finds its order."""
    order = uuid.uuid4()
    made = db.execute(
        "INSERT INTO orders (id, product_id, quantity, idempotency_key) VALUES (%s, %s, %s, %s) "
        "ON CONFLICT (idempotency_key) DO NOTHING",  # waits for a transaction that has inserted this key
        (order, product, quantity, key),
    )
    if made.rowcount == 0:
        (order,) = db.execute("SELECT id FROM orders WHERE idempotency_key = %s", (key,)).fetchone()
        return order
    taken = db.execute(
        "UPDATE products SET stock = stock - %s WHERE id = %s AND stock >= %s", (quantity, product, quantity)
    )
    if taken.rowcount == 0:
        db.rollback()  # the order goes too
        return None
    return order


def main():
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--port", type=int, default=5000)
    flags.add_argument("--postgres", default="postgresql://postgres@127.0.0.1:5432/shop")
    flags.add_argument("--guarded", action="store_true", default=os.environ.get("GUARDED") == "1",
                       help="let the UPDATE check the stock, and remember idempotency keys; also GUARDED=1")
    flags.parse_args(namespace=options)
    options.pool = ConnectionPool(options.postgres, min_size=1, max_size=10, check=ConnectionPool.check_connection)
    app.run(host="127.0.0.1", port=options.port, threaded=True)


if __name__ == "__main__":
    main()
