/**
 * A player's side in JavaScript, for browsers and node: log in, open a socket, call functions, be in matches. It speaks
 * the socket's JSON by itself, so that it needs nothing else; a larger game would rather use nakama-js.
 *
 *     const player = await Player.logIn("127.0.0.1:7350");
 *     player.onmatchdata = ({ op_code, data }) => …;
 *     await player.open();
 *     await player.joinMatch(id);
 *     player.sendMatchState(id, 2, new Uint8Array([1, 2, 3]));
 *
 * Data in: answers and events of the server. Data out: match data as bytes, errors in the server's words. Not done here:
 * reconnecting, renewing tokens, datagrams (examples/datagrams, for node). Node 20 has no WebSocket of its own: give it
 * one, as `globalThis.WebSocket`.
 */

const base64 = (bytes) => btoa(String.fromCharCode(...bytes));
const bytesOf = (text) => Uint8Array.from(atob(text ?? ""), (letter) => letter.charCodeAt(0));
/** An id that nobody has; `randomUUID` is for pages over TLS only. */
const fresh = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(36)).join("");

/** Sends a request of the API; gives what the answer holds. */
async function api({ server, secure }, path, options) {
  const response = await fetch(`http${secure ? "s" : ""}://${server}${path}`, options);
  if (!response.ok) throw new Error(`${path}: ${await response.text()}`);
  return response.json();
}

/** Somebody who is logged in. */
export class Player {
  /** Called with `{match_id, presence, op_code, data}`: a number, and bytes. */
  onmatchdata = () => {};
  /** Called with the server's reason when the socket is closed. */
  onclose = () => {};
  #place;
  #token;
  #socket;
  #calls = 0;
  #waiting = new Map();

  constructor(place, token) {
    this.#place = place;
    this.#token = token;
  }

  /** Logs a device in, a new one unless told otherwise, at `host:port`. */
  static async logIn(server, { key = "defaultkey", secure = false, device = `device-${fresh()}` } = {}) {
    const place = { server, secure };
    const { token } = await api(place, "/v2/account/authenticate/device?create=true", {
      method: "POST",
      headers: { Authorization: `Basic ${btoa(`${key}:`)}` },
      body: JSON.stringify({ id: device }),
    });
    return new Player(place, token);
  }

  /** The ids of matches that scripts or the server run and that fit a query. */
  async listMatches(query) {
    const path = `/v2/match?authoritative=true&query=${encodeURIComponent(query)}`;
    const { matches = [] } = await api(this.#place, path, { headers: { Authorization: `Bearer ${this.#token}` } });
    return matches.map((match) => match.match_id);
  }

  /** Opens the socket. */
  async open() {
    const { server, secure } = this.#place;
    const socket = new WebSocket(`ws${secure ? "s" : ""}://${server}/ws?token=${this.#token}`);
    this.#socket = socket;
    socket.onmessage = ({ data }) => this.#take(JSON.parse(data), data.length);
    await new Promise((done, fail) => {
      socket.onopen = done;
      socket.onerror = () => fail(new Error(`no socket at ${server}`));
    });
    socket.onerror = null;
    socket.onclose = ({ reason }) => {
      for (const { fail } of this.#waiting.values()) fail(new Error(`the socket is closed: ${reason}`));
      this.#waiting.clear();
      this.onclose(reason);
    };
  }

  #take({ cid, error, match_data, ...answer }, length) {
    if (match_data) {
      const { op_code, data } = match_data;
      this.onmatchdata({ ...match_data, op_code: Number(op_code ?? 0), data: bytesOf(data), length });
    }
    const waits = this.#waiting.get(cid);
    this.#waiting.delete(cid);
    if (error) waits?.fail(new Error(error.message));
    else waits?.done(answer);
  }

  #call(message) {
    const cid = String((this.#calls += 1));
    const answered = new Promise((done, fail) => this.#waiting.set(cid, { done, fail }));
    this.#socket.send(JSON.stringify({ cid, ...message }));
    return answered;
  }

  /** Calls an RPC function; gives `{id, payload}`. */
  rpc = async (id, payload = "") => (await this.#call({ rpc: { id, payload } })).rpc;

  /** Enters a match; gives what there is to know of it. */
  joinMatch = async (match_id) => (await this.#call({ match_join: { match_id } })).match;

  /** Leaves it. */
  leaveMatch = (match_id) => this.#call({ match_leave: { match_id } });

  /** Sends bytes to a match. Nothing answers. */
  sendMatchState(match_id, op_code, bytes) {
    const send = { match_id, op_code: String(op_code), data: base64(bytes) };
    this.#socket.send(JSON.stringify({ match_data_send: send }));
  }

  close() {
    this.#socket?.close();
  }
}
