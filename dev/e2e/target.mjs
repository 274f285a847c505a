/**
 * A server on loopback that scripts ask: it answers what the path says, and holds back what a test has not let go.
 *
 * `/echo` tells the request; `/status/418` answers so; `/to?url` redirects there; `/hold/name` waits for
 * `releaseAll()`; `/late/5000` answers so many milliseconds later. Not here: anything about the server under test.
 */
import { createServer } from "node:http";
import { once } from "node:events";
import { until } from "./client.mjs";


/** Options of a server whose scripts may ask this machine, at any port. */
export const OPEN = { "fetch.enabled": true, "fetch.allow": "*", "fetch.networks": "127.0.0.1" };

export class Target {
  /** Requests that have come, in order: `{method, url, headers, content}`. */
  requests = [];
  #held = new Map();
  #server;

  static async start() {
    const target = new Target();
    target.#server = createServer((request, response) => target.#serve(request, response));
    target.#server.listen(0, "127.0.0.1");
    await once(target.#server, "listening");
    return target;
  }

  get port() {
    return this.#server.address().port;
  }

  url(path) {
    return `http://127.0.0.1:${this.port}${path}`;
  }

  /** Waits until so many requests are held. */
  async holds(count) {
    await until(() => this.#held.size === count);
  }

  /** Answers all that are held. */
  releaseAll() {
    for (const response of this.#held.values()) response.end("released");
    this.#held.clear();
  }

  async stop() {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  async #serve(request, response) {
    let content = "";
    for await (const piece of request) content += piece;
    const { method, url, headers } = request;
    this.requests.push({ method, url, headers, content });
    const [path, rest] = [url.split("?")[0], url.slice(url.indexOf("?") + 1)];
    if (path.startsWith("/hold/")) {
      this.#held.set(path, response);
      response.once("close", () => this.#held.delete(path));
    } else if (path.startsWith("/late/")) {
      setTimeout(() => response.end("late"), Number(path.split("/")[2]));
    } else if (path === "/to") {
      response.writeHead(302, { location: decodeURIComponent(rest) }).end();
    } else if (path.startsWith("/status/")) {
      response.writeHead(Number(path.split("/")[2])).end();
    } else {
      response.writeHead(200, { "content-type": "application/json", "x-many": ["a", "b"] });
      response.end(JSON.stringify({ method, url, headers, content }));
    }
  }
}
