"""A front: POST /prepare/PRODUCT/BASKETS fills baskets, and POST /buy/PRODUCT checks one of them out, at once.

    front.py PORT BASKETS COMMAND...    starts COMMAND, the shop, with {port} in it, and keeps the baskets in a directory
"""
import http.client, http.server, os, socket, subprocess, sys

port, baskets = int(sys.argv[1]), sys.argv[2]
with socket.create_server(("127.0.0.1", 0)) as free:  # a port for the shop
    behind = free.getsockname()[1]
shop = subprocess.Popen([word.replace("{port}", str(behind)) for word in sys.argv[3:]])


def ask(path, session="", form=""):
    """Sends a step to the shop, and follows no redirect: where it leads is the outcome."""
    c = http.client.HTTPConnection("127.0.0.1", behind, timeout=30)
    c.request("POST", path, form, {"Cookie": session, "Content-Type": "application/x-www-form-urlencoded"})
    r = c.getresponse()
    r.read()
    c.close()
    return r


class Front(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):  # ready when the shop is
        socket.create_connection(("127.0.0.1", behind)).close()
        self.answer(200, "")

    def do_POST(self):
        what, product, *count = self.path.strip("/").split("/")
        directory = os.path.join(baskets, product)
        if what == "prepare":  # arrange: all steps but the last. A file per basket: each replica's front finds it
            os.makedirs(directory, exist_ok=True)
            for old in os.listdir(directory):
                os.remove(os.path.join(directory, old))
            for _ in range(int(count[0])):
                session = ask(f"/basket/{product}").getheader("Set-Cookie").split(";")[0]
                ask("/address", session, "address=1+Main+Street")
                open(os.path.join(directory, session), "w").close()
            return self.answer(200, "")
        for session in os.listdir(directory):  # act: the step that sells
            try:
                os.remove(os.path.join(directory, session))
            except FileNotFoundError:
                continue  # another request has taken it
            r = ask("/checkout", session)
            to = r.getheader("Location", "")
            if to.startswith("/thanks/"):
                return self.answer(201, f'{{"order_id": "{to.split("/")[-1]}"}}')
            return self.answer(409 if "sold-out" in to else 500, f"{r.status} {to}")
        self.answer(503, "no basket is left")

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer.request_queue_size = 1000
http.server.ThreadingHTTPServer(("127.0.0.1", port), Front).serve_forever()
