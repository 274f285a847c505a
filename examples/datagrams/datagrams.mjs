/**
 * A client's side of throng's datagrams, for node: what may be lost goes by UDP beside the socket of nakama-js.
 * The form is docs/datagrams.md. Browsers have no UDP, and need none: there everything goes over the socket.
 *
 *     const datagrams = await Datagrams.open(socket, { host: "127.0.0.1", onMatchData: (data) => … });
 *     datagrams.sendMatchState(matchId, opCode, bytes);
 *     datagrams.close();
 *
 * Data in: the answer to `throng_datagrams`, datagrams of the server, the time. Data out: match data, as
 * nakama-js has it, and datagrams. Not done here: anything about the socket but the one RPC.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { createSocket } from "node:dgram";
import { isIPv6 } from "node:net";

/** The version of the form. */
export const VERSION = 1;
export const PROBE = 1;
export const PROOF = 2;
export const CLIENT_DATA = 3;
export const CHALLENGE = 0x81;
export const ALIVE = 0x82;
export const SERVER_DATA = 0x83;

const HEAD_BYTES = 21;
const TAG_BYTES = 16;
const BYTES_MAX = 1_200;
const MESSAGE_BYTES = 21;
/** Bytes of data that fit into one datagram. */
export const DATA_BYTES_MAX = BYTES_MAX - HEAD_BYTES - TAG_BYTES - MESSAGE_BYTES;
/** So often something is sent, and after so long without an answer the way is looked for again. */
const PROBE_MS = 1_000;
const SILENT_MS = 3_000;
const REMEMBERED = 128;

const uuidOf = (bytes) =>
  bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");

/** Bytes of a datagram; `head` is `{kind, id, sequence, newest, bits}`. */
export function seal(key, { kind, id, sequence, newest = 0, bits = 0 }, body = Buffer.alloc(0)) {
  const bytes = Buffer.alloc(HEAD_BYTES + body.length + TAG_BYTES);
  bytes[0] = kind;
  id.copy(bytes, 1);
  [sequence, newest, bits].forEach((number, index) => bytes.writeUInt32LE(number >>> 0, 9 + 4 * index));
  body.copy(bytes, HEAD_BYTES);
  tag(key, bytes).copy(bytes, bytes.length - TAG_BYTES);
  return bytes;
}

/** Reads one: `{kind, id, sequence, newest, bits, body}`, undefined if it is none or not by who has the key. */
export function open(key, bytes) {
  if (bytes.length < HEAD_BYTES + TAG_BYTES || bytes.length > BYTES_MAX) return undefined;
  if (!timingSafeEqual(tag(key, bytes), bytes.subarray(bytes.length - TAG_BYTES))) return undefined;
  const [sequence, newest, bits] = [9, 13, 17].map((at) => bytes.readUInt32LE(at));
  const body = bytes.subarray(HEAD_BYTES, bytes.length - TAG_BYTES);
  return { kind: bytes[0], id: bytes.subarray(1, 9), sequence, newest, bits, body };
}

const tag = (key, bytes) =>
  createHmac("sha256", key).update(bytes.subarray(0, bytes.length - TAG_BYTES)).digest().subarray(0, TAG_BYTES);

/** The body of a message to a match, whose id is as nakama-js has it. */
export function message(matchId, opCode, data = new Uint8Array()) {
  const [uuid, node] = matchId.split(".");
  const body = Buffer.alloc(MESSAGE_BYTES + data.length);
  body[0] = node ? 1 : 0;
  Buffer.from(uuid.replaceAll("-", ""), "hex").copy(body, 1);
  body.writeInt32LE(opCode, 17);
  body.set(data, MESSAGE_BYTES);
  return body;
}

/** Reads one of the server: `{match_uuid, is_authoritative, op_code, presence, data}`. */
export function readMessage(body) {
  const read = {
    match_uuid: uuidOf(body.subarray(1, 17)),
    is_authoritative: (body[0] & 1) === 1,
    op_code: body.readInt32LE(17),
  };
  if (!(body[0] & 2)) return { ...read, data: body.subarray(MESSAGE_BYTES) };
  const [user_id, session_id] = [21, 37].map((at) => uuidOf(body.subarray(at, at + 16)));
  const end = 54 + body[53];
  const username = body.subarray(54, end).toString("utf8");
  return { ...read, presence: { user_id, session_id, username }, data: body.subarray(end) };
}

/** Which numbers of the server came. */
export class Window {
  newest = 0;
  #came = 0n;

  /** Notes a number; false if it came already or is too old. */
  take(sequence) {
    if (sequence > this.newest) {
      this.#came = BigInt.asUintN(REMEMBERED, (this.#came << BigInt(Math.min(sequence - this.newest, REMEMBERED))) | 1n);
      this.newest = sequence;
      return true;
    }
    const age = this.newest - sequence;
    const bit = 1n << BigInt(Math.min(age, REMEMBERED));
    if (sequence === 0 || age >= REMEMBERED || this.#came & bit) return false;
    this.#came |= bit;
    return true;
  }

  get bits() {
    return Number((this.#came >> 1n) & 0xffff_ffffn);
  }
}

/** The datagrams of one session. */
export class Datagrams {
  /** Whether the server believes our address, as far as can be known. */
  isOpen = false;
  #grant;
  #udp;
  #timer;
  #sequence = 0;
  #window = new Window();
  #heardMs = 0;
  #isClosed = false;
  #onMatchData;
  #opened;

  /**
   * Asks for datagrams over a connected socket of nakama-js, and waits until they come through. `host` is where the
   * server is if it does not say so itself. `onMatchData` gets `{match_uuid, is_authoritative, op_code, presence, data}`.
   * `transport` is for tests: `{send(bytes), close()}` in place of a UDP socket, and is given `heard`.
   */
  static async open(socket, { host, onMatchData, transport, withinMs = 5_000 } = {}) {
    const { payload } = await socket.rpc("throng_datagrams");
    const grant = JSON.parse(payload);
    if (grant.version !== VERSION) throw new Error(`datagrams of version ${grant.version}; this is ${VERSION}`);
    const datagrams = new Datagrams(grant, onMatchData);
    await datagrams.#begin(grant.host || host, transport, withinMs);
    return datagrams;
  }

  constructor(grant, onMatchData) {
    const [key, id] = [grant.key, grant.id].map((text) => Buffer.from(text, "hex"));
    this.#grant = { ...grant, key, id };
    this.#onMatchData = onMatchData;
  }

  async #begin(host, transport, withinMs) {
    const opened = new Promise((done) => (this.#opened = done));
    this.#udp = transport ? transport(this.#grant, (bytes) => this.heard(bytes)) : await this.#bind(host);
    this.#timer = setInterval(() => this.#look(), PROBE_MS);
    this.#look();
    let late;
    const failed = new Promise((_, fail) => {
      late = setTimeout(() => fail(new Error(`no datagram comes back within ${withinMs} ms`)), withinMs);
    });
    try {
      await Promise.race([opened, failed]);
    } catch (error) {
      this.close();
      throw error;
    } finally {
      clearTimeout(late);
    }
  }

  async #bind(host) {
    const udp = createSocket(isIPv6(host) ? "udp6" : "udp4");
    udp.on("message", (bytes) => this.heard(bytes));
    udp.on("error", () => {}); // Refused or unreachable: what was sent is lost, and the way is looked for again.
    await new Promise((done) => udp.connect(this.#grant.port, host, done));
    return { send: (bytes) => udp.send(bytes), close: () => udp.close() };
  }

  /** Once a second: a sign of life, or if nothing has come for long, the way anew. */
  #look() {
    if (Date.now() - this.#heardMs > SILENT_MS) this.isOpen = false;
    this.#send(PROBE, Buffer.alloc(this.isOpen ? 8 : BYTES_MAX - HEAD_BYTES - TAG_BYTES));
  }

  #send(kind, body) {
    if (this.#isClosed) return;
    this.#sequence += 1;
    const { key, id } = this.#grant;
    const { newest, bits } = this.#window;
    this.#udp.send(seal(key, { kind, id, sequence: this.#sequence, newest, bits }, body));
  }

  /** Takes a datagram of the server. */
  heard(bytes) {
    const read = open(this.#grant.key, bytes);
    if (this.#isClosed || !read || read.kind < 0x80 || !this.#window.take(read.sequence)) return;
    this.#heardMs = Date.now();
    if (read.kind === CHALLENGE) return this.#send(PROOF, read.body.subarray(0, 8));
    this.isOpen = true;
    this.#opened();
    if (read.kind === SERVER_DATA) this.#onMatchData?.(readMessage(read.body));
  }

  /** Sends a message to a match that the session is in. It may be lost, and is never answered. */
  sendMatchState(matchId, opCode, data) {
    if (data.length > DATA_BYTES_MAX) throw new RangeError(`${data.length} bytes; at most ${DATA_BYTES_MAX} fit`);
    this.#send(CLIENT_DATA, message(matchId, opCode, data));
  }

  close() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearInterval(this.#timer);
    this.#udp?.close();
  }
}
