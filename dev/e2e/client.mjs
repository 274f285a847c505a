/**
 * What the tests use to talk to a server: the released nakama-js with its sockets in both formats, and, where
 * the SDK hides what is on the wire, plain requests (`http`) and plain WebSockets (`RawSocket`).
 *
 * Events land in an `Inbox`, from which a test takes what it expects; nothing here sleeps. Node 20 has no
 * WebSocket of its own, so the `ws` package stands in, as nakama-js asks of its users.
 */
import { randomUUID, createHmac } from "node:crypto";
import { WebSocket } from "ws";
import { Client, Session } from "@heroiclabs/nakama-js";
import { WebSocketAdapterPb } from "@heroiclabs/nakama-js-protobuf";
import assert from "node:assert/strict";
import { isExternal, within } from "./server.mjs";

globalThis.WebSocket ??= WebSocket;

/** How long something may take that ought to happen at once. */
export const SOON_MS = 5_000;
/** Repeats until the condition holds; for what happens a little later than its cause is answered, or in `withinMs`. */
export async function until(condition, withinMs = SOON_MS) {
  for (const end = Date.now() + withinMs; Date.now() < end;) {
    if (await condition()) return;
    await new Promise(setImmediate); // Else a condition without I/O keeps that of all others waiting.
  }
  assert.fail(`still not after ${withinMs} ms: ${condition}`);
}

/** The two socket formats; each socket test runs in both. */
export const FORMATS = ["json", "protobuf"];

/** A device id (and anything else that must be unused). */
export const unique = (prefix = "e2e") => `${prefix}-${randomUUID()}`;

/** A nakama-js client; sessions are not refreshed behind the test's back unless it asks for that. */
export const clientOf = (server, { key = server.serverKey, autoRefresh = false } = {}) =>
  new Client(key, server.host, server.port, false, SOON_MS, autoRefresh);

/** A new player: client and session. */
export async function newPlayer(server, { username, vars, device = unique() } = {}) {
  const client = clientOf(server);
  const session = await client.authenticateDevice(device, true, username, vars);
  return { client, session, device };
}

/** Events in the order of arrival. `take` waits for one that fits and removes it. */
export class Inbox {
  #items = [];
  #waiting = [];

  push(item) {
    const index = this.#waiting.findIndex((w) => w.fits(item));
    if (index < 0) this.#items.push(item);
    else this.#waiting.splice(index, 1)[0].give(item);
  }

  /** The first item that fits, now or within `ms`. */
  async take(fits, what = "an event", ms = SOON_MS) {
    const index = this.#items.findIndex(fits);
    if (index >= 0) return this.#items.splice(index, 1)[0];
    const waiter = { fits };
    const given = new Promise((give) => (waiter.give = give));
    this.#waiting.push(waiter);
    return within(given, ms, () => {
      this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
      return `no ${what} within ${ms} ms; there is ${JSON.stringify(this.#items)}`;
    });
  }

  /** What arrived and was not taken. */
  left(fits = () => true) {
    return this.#items.filter(fits);
  }
}

const EVENTS = {
  ondisconnect: "disconnect",
  onerror: "error",
  onnotification: "notification",
  onmatchdata: "match_data",
  onmatchpresence: "match_presence",
  onstatuspresence: "status_presence",
  onstreampresence: "stream_presence",
  onstreamdata: "stream_data",
  onheartbeattimeout: "heartbeat_timeout",
};

/** A new player with an open nakama-js socket; `on` is the inbox of `{name, value}`. */
export async function newSocketPlayer(server, { format = "json", status = false, ...rest } = {}) {
  const player = await newPlayer(server, rest);
  return { ...player, ...(await openSocket(player.client, player.session, { format, status })) };
}

/** A nakama-js socket of a session. */
export async function openSocket(client, session, { format = "json", status = false } = {}) {
  const adapter = format === "protobuf" ? new WebSocketAdapterPb() : undefined;
  const socket = client.createSocket(false, false, adapter);
  const on = new Inbox();
  for (const [handler, name] of Object.entries(EVENTS)) {
    socket[handler] = (value) => on.push({ name, value });
  }
  await socket.connect(session, status);
  return {
    socket,
    on,
    next: (name, fits = () => true, ms) =>
      on.take((e) => e.name === name && fits(e.value), name, ms).then((e) => e.value),
    /** Closes without telling the inbox. */
    leave: () => socket.disconnect(false),
  };
}

/** Text of a nakama-js match_data event. */
export const textOf = (matchData) => Buffer.from(matchData.data ?? []).toString("utf8");

/** nakama-js throws the Response itself: its status and decoded body. */
export async function refusal(promise) {
  const response = await promise.then(
    (value) => assert.fail(`expected a refusal, got ${JSON.stringify(value)}`),
    (error) => error,
  );
  if (!(response instanceof Response)) throw response;
  return { status: response.status, ...(await response.json()) };
}

/** One HTTP request; the answer with its body as text and, if it is JSON, decoded. */
export async function http(server, method, path, { headers = {}, body } = {}) {
  const response = await fetch(server.url + path, { method, headers, body });
  const text = await response.text();
  let json;
  try {
    json = JSON.parse(text);
  } catch {
    // Not JSON: the caller looks at the text.
  }
  return { status: response.status, headers: response.headers, text, json };
}

export const basic = (key) => ({ authorization: `Basic ${btoa(`${key}:`)}` });
export const bearer = (session) => ({ authorization: `Bearer ${session.token ?? session}` });

/** The claims of a token, unverified. */
export const claimsOf = (token) =>
  JSON.parse(Buffer.from(token.split(".")[1], "base64url").toString("utf8"));

/** A token as the server makes them, with claims of the test's choice. */
export function forgeToken(
  claims,
  key = "defaultencryptionkey",
  head = { alg: "HS256", typ: "JWT" },
) {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const signed = `${part(head)}.${part(claims)}`;
  return `${signed}.${createHmac("sha256", key).update(signed).digest("base64url")}`;
}

/**
 * The same session as if it had been issued ten seconds earlier. Nakama compares whole seconds, so a
 * token of the very second of a ban or of a logout of all sessions slips through there.
 */
export function tenSecondsOlder({ token, refresh_token }) {
  const older = (t, key) => {
    const { iat, exp, ...rest } = claimsOf(t);
    return forgeToken({ ...rest, iat: iat - 10, exp: exp - 10 }, key);
  };
  return Session.restore(older(token), older(refresh_token, "defaultrefreshencryptionkey"));
}

/** A WebSocket without any SDK, for what the SDK would not send or not show. JSON unless told otherwise. */
export class RawSocket {
  #cid = 0;
  #socket;
  on = new Inbox();

  /** Opens; `query` are further parameters. Rejects with `{status, body}` if the handshake is refused. */
  static async open(server, token, query = {}, headers = {}) {
    const parameters = new URLSearchParams({ ...(token ? { token } : {}), ...query });
    const raw = new RawSocket();
    const url = `ws://${server.host}:${server.port}/ws?${parameters}`;
    const socket = new WebSocket(url, { headers, perMessageDeflate: false });
    raw.#socket = socket;
    raw.closed = new Promise((done) =>
      socket.once("close", (code, reason) => done({ code, reason: reason.toString() })),
    );
    socket.on("error", () => {}); // The close event follows and says more.
    socket.on("ping", (data) => raw.on.push({ ping_frame: data.toString() }));
    socket.on("pong", (data) => raw.on.push({ pong_frame: data.toString() }));
    socket.on("message", (data, isBinary) =>
      raw.on.push(isBinary ? { binary: data } : JSON.parse(data.toString())),
    );
    await new Promise((opened, refused) => {
      socket.once("open", opened);
      socket.once("unexpected-response", (_request, response) => {
        const chunks = [];
        response.on("data", (chunk) => chunks.push(chunk));
        response.on("end", () =>
          refused({ status: response.statusCode, body: Buffer.concat(chunks).toString() }),
        );
      });
    });
    return raw;
  }

  get frames() {
    return this.#socket;
  }

  /** Sends a value as JSON text, or a string or bytes as they are. */
  send(message) {
    const plain = typeof message === "string" || message instanceof Uint8Array;
    this.#socket.send(plain ? message : JSON.stringify(message));
  }

  /** Sends with the next cid and waits for the answer to it. */
  async request(message, ms) {
    const cid = String(++this.#cid);
    this.send({ cid, ...message });
    return this.on.take((m) => m.cid === cid, `answer to ${JSON.stringify(message)}`, ms);
  }

  /** The next event that carries `name`. */
  async next(name, ms) {
    return (await this.on.take((m) => name in m && !m.cid, name, ms))[name];
  }

  /** Waits until the server has closed; gives code and reason. */
  async untilClosed(ms = SOON_MS) {
    return within(this.closed, ms, () => "the server did not close the socket");
  }

  close() {
    this.#socket.terminate();
  }
}

/**
 * The server closes with this reason, after an error frame. Nakama queues that frame and may close
 * before it is written; throng must deliver it.
 */
export async function closedWith(raw, reason, error) {
  const end = await raw.untilClosed();
  const errors = raw.on.left((m) => m.error).map((m) => m.error);
  if (error && (errors.length > 0 || !isExternal)) assert.deepEqual(errors, [error]);
  assert.deepEqual(end, { code: 1000, reason });
}
