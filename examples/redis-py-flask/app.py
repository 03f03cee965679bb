"""A flash sale: Flask, redis-py's Lock around the sale, stock and orders in MySQL."""

import argparse
import contextlib
import logging
import uuid

import pymysql
import redis
from flask import Flask, jsonify, request
from redis.exceptions import LockError

app = Flask(__name__)
options = argparse.Namespace()


@contextlib.contextmanager
def database():
    o = options
    connection = pymysql.connect(host=o.mysql_host, port=o.mysql_port, user=o.mysql_user, password=o.mysql_password, database=o.mysql_database)
    try:
        with connection.cursor() as cursor:
            yield cursor
        connection.commit()
    finally:
        connection.close()  # without a commit this rolls back


@app.post("/buy")
def buy():
    product = request.args.get("product", type=int)
    lock = options.redis.lock(f"lock:product:{product}", timeout=options.lock_timeout, blocking_timeout=3)
    if not lock.acquire():
        return jsonify(error="busy"), 423
    try:
        return guarded_sale(product) if options.guarded else sale(product)
    finally:
        try:
            lock.release()
        except LockError:
            logging.warning("lock of product %d has expired", product)


def sale(product):
    """Reads, checks and writes the stock; only the lock keeps other requests out."""
    with database() as db:
        db.execute("SELECT stock FROM products WHERE id = %s", (product,))
        (stock,) = db.fetchone()
        if stock < 1:
            return jsonify(error="sold out"), 409
        db.execute("UPDATE products SET stock = %s WHERE id = %s", (stock - 1, product))
        return jsonify(order_id=order(db, product))


def guarded_sale(product):
    """One UPDATE checks the stock and takes a unit."""
    with database() as db:
        if not db.execute("UPDATE products SET stock = stock - 1 WHERE id = %s AND stock > 0", (product,)):
            return jsonify(error="sold out"), 409
        return jsonify(order_id=order(db, product))


def order(db, product):
    order_id = uuid.uuid4().hex
    db.execute("INSERT INTO orders (id, product_id) VALUES (%s, %s)", (order_id, product))
    return order_id


def main():
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--port", type=int, default=5000)
    flags.add_argument("--redis", default="redis://127.0.0.1:6379/0")
    flags.add_argument("--mysql-host", default="127.0.0.1")
    flags.add_argument("--mysql-port", type=int, default=3306)
    flags.add_argument("--mysql-user", default="root")
    flags.add_argument("--mysql-password", default="")
    flags.add_argument("--mysql-database", default="shop")
    flags.add_argument("--lock-timeout", type=float, default=10, help="seconds")
    flags.add_argument("--guarded", action="store_true", help="let the UPDATE check the stock")
    flags.parse_args(namespace=options)
    options.redis = redis.Redis.from_url(options.redis)
    app.run(host="127.0.0.1", port=options.port)


if __name__ == "__main__":
    main()
