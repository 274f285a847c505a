/**
 * The known attacks on servers of HTTP/2, one after the other, by the names that they have: each ends the attacker's
 * connections, and a neighbour of the same core over REST, WebSocket and gRPC does not wait. Rapid resets
 * (CVE-2023-44487), pings and settings (CVE-2019-9512, -9515), header blocks without end (CVE-2024-27316) and slow
 * senders are in grpc.test.mjs.
 */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { bearer as bearerOf, newPlayer } from "../client.mjs";
import { throngOnly } from "../server.mjs";
import { besideNeighbour, inParallel, startVictim } from "./rig.mjs";
import {
  DATA, END_HEADERS, END_STREAM, HEADERS, PRIORITY, RST_STREAM, SETTINGS, WINDOW_UPDATE,
  frame, framed, head, number, rpcMessage,
} from "./grpc.mjs";
import { NEIGHBOUR, counted, flood, happens, open, rest } from "./floods.mjs";

const KIB = 1 << 10;
const MIB = 1 << 20;
const WRITE_TIMEOUT_MS = 2_000;
const UNSENT_MAX = 32 * MIB;
const ATTACK_MS = 2_000;
const WINDOW_MAX = 0x7fff_ffff;
/** Not the neighbour's address, and not exempt from the limits of addresses. */
const ELSEWHERE = "127.0.0.2";

let server;
let session;
let bearer;
before(async () => {
  if (throngOnly.skip) return;
  const options = {
    "engine.cores": 1,
    "limit.unsent_max_bytes": UNSENT_MAX,
    "limit.exempt_addresses": "127.0.0.1/32",
    "socket.read_timeout_ms": 1_500,
    "socket.write_timeout_ms": WRITE_TIMEOUT_MS,
    "session.token_expiry_sec": 3_600,
  };
  server = await startVictim({ options });
  session = (await newPlayer(server)).session;
  bearer = bearerOf(session).authorization;
});
after(() => server?.stop());

const many = (count, bytes) => Buffer.concat(Array(count).fill(bytes));
const each = (count, from, bytes) =>
  Buffer.concat(Array.from({ length: count }, (_, index) => bytes(from + 2 * index)));

/** A whole call on a stream; `times` a thousand bytes come back. */
function call(id, times, fields = {}) {
  const text = Array.from({ length: 100 }, (_, index) => `text ${index} `.padEnd(10)).join("");
  const message = framed(rpcMessage("e2e_repeat", JSON.stringify({ text, times })));
  const block = head("RpcFunc", { authorization: bearer, ...fields });
  return Buffer.concat([frame(HEADERS, END_HEADERS, id, block), frame(DATA, END_STREAM, id, message)]);
}

/** A header block of one field in the Huffman code whose symbols are the longest, so that decoding is the slowest. */
function slowestBlock() {
  const bits = ("1".repeat(28) + "00").repeat(4); // Four times a line feed, in 15 bytes.
  const coded = Buffer.from(bits.match(/.{8}/g).map((byte) => parseInt(byte, 2)));
  const [times, length] = [1_060, 1_060 * 15 - 127];
  const name = Buffer.from([0, 1, 97, 255, (length & 127) | 128, length >> 7]);
  return Buffer.concat([Buffer.from([0x83, 0x86, 0x84]), name, many(times, coded)]);
}

const windows = many(2_700, Buffer.concat([Buffer.from([0, 4]), number(1)]));
windows.forEach((_, at) => at % 12 === 5 && (windows[at] = 2));
const half = (id) => frame(HEADERS, END_HEADERS, id, head("RpcFunc", { authorization: bearer }));

/** What each attack sends at first and then again and again, on how many streams. */
const FLOODS = [
  ["data dribble (CVE-2019-9511)", { window: 0 }, (stream) =>
    stream === 1
      ? { bytes: each(10, 1, (id) => call(id, 500)), streams: 10 }
      : { bytes: many(20, each(10, 1, (id) => frame(WINDOW_UPDATE, 0, id, number(1)))), streams: 0 }],
  ["resource loop (CVE-2019-9513)", {}, () => ({ bytes: many(500, frame(PRIORITY, 0, 1, Buffer.alloc(5))), streams: 0 })],
  ["reset flood (CVE-2019-9514), not reading", { reads: false }, (stream) => ({
    bytes: each(100, stream, (id) => frame(HEADERS, END_HEADERS | END_STREAM, id, Buffer.from([0x83, 0, 1, 65, 1, 65]))),
    streams: 100,
  })],
  ["windows in settings", {}, (stream) =>
    stream === 1
      ? { bytes: each(100, 1, half), streams: 100 }
      : { bytes: many(4, frame(SETTINGS, 0, 0, windows)), streams: 0 }],
  ["headers without a name (CVE-2019-9516)", {}, (stream) => ({
    bytes: each(20, stream, (id) => frame(HEADERS, END_HEADERS | END_STREAM, id, Buffer.alloc(3 * 120))),
    streams: 20,
  })],
  ["empty frames (CVE-2019-9518)", {}, (stream) => ({
    bytes: Buffer.concat([stream === 1 ? half(1) : Buffer.alloc(0), many(500, frame(DATA, 0, 1))]),
    streams: 1,
  })],
  ["half requests taken back", {}, (stream) => ({
    bytes: each(50, stream, (id) => Buffer.concat([half(id), frame(RST_STREAM, 0, id, number(8))])),
    streams: 50,
  })],
  ["streams beyond those that there may be", {}, (stream) => ({
    bytes: Buffer.concat([frame(SETTINGS, 1, 0), each(300, stream, half)]),
    streams: 300,
  })],
];

for (const [name, how, next] of FLOODS) {
  test(`${name} ends the connection`, throngOnly, async () => {
    const closed = await counted(server, "grpc_closed_flooding", () =>
      flood(server, { width: 10, ms: ATTACK_MS, next, ...how }),
    );
    assert.ok(closed >= 10, `${closed} connections were ended`);
  });
}

/** CVE-2025-8671: frames that are wrong in ways that make a server reset the stream, while its call runs on. */
test("who makes the server reset calls loses the connection", throngOnly, async () => {
  const wrongs = [
    (id) => frame(WINDOW_UPDATE, 0, id, number(0)),
    (id) => frame(WINDOW_UPDATE, 0, id, number(WINDOW_MAX)),
    (id) => frame(DATA, 0, id, Buffer.from("more")),
    (id) => half(id),
    () => Buffer.concat([frame(SETTINGS, 0, 0, Buffer.concat([Buffer.from([0, 4]), number(WINDOW_MAX)])),
      frame(WINDOW_UPDATE, 0, 0, number(WINDOW_MAX))]),
  ];
  let at = 0;
  const { result } = await besideNeighbour(server, () =>
    flood(server, { width: 10, ms: ATTACK_MS, next: (stream) => {
      const wrong = wrongs[at++ % wrongs.length];
      return { bytes: each(10, stream, (id) => Buffer.concat([call(id, 1), wrong(id)])), streams: 10 };
    } }),
  NEIGHBOUR);
  assert.ok(result >= 50, `${result} connections were ended`);
});

test("the dearest header blocks make nobody wait", throngOnly, async () => {
  const blocks = [
    slowestBlock(),
    // The size of the table, 16,000 times.
    Buffer.concat([Buffer.alloc(16_000, 0x20), Buffer.from([0x83, 0x86, 0x84])]),
    // More than the metadata may have, in many small fields.
    Buffer.concat([Buffer.from([0x83, 0x86, 0x84]), many(120, Buffer.concat([Buffer.from([0, 1, 97, 100]), Buffer.alloc(100, 97)]))]),
  ];
  for (const block of blocks) {
    await besideNeighbour(server, () =>
      flood(server, { width: 10, ms: ATTACK_MS, next: (stream) => ({
        bytes: each(20, stream, (id) => frame(HEADERS, END_HEADERS | END_STREAM, id, block)),
        streams: 20,
      }) }),
    NEIGHBOUR);
  }
});

/** CVE-2019-9517: windows are wide open, and nothing is read. */
test("who opens its windows and reads nothing holds little", throngOnly, async () => {
  const resident = await server.residentBytes();
  await counted(server, "answers_awaited", async () => {
    const sockets = await inParallel(10, 10, async () => {
      const socket = await open(server, { window: WINDOW_MAX, reads: false });
      socket.write(frame(WINDOW_UPDATE, 0, 0, number(WINDOW_MAX - 65_535)));
      for (let id = 1; id < 200 && !socket.destroyed; id += 2) socket.write(call(id, 500));
      return socket;
    });
    await rest(ATTACK_MS / 2);
    // All of before may have been asked before there was any answer: what comes now waits for those.
    for (const socket of sockets) if (!socket.destroyed) socket.write(call(201, 500));
    await rest(ATTACK_MS / 2);
    sockets.forEach((socket) => socket.destroy());
  });
  const grown = (await server.residentBytes()) - resident;
  assert.ok(grown < 2 * UNSENT_MAX + 64 * MIB, `${grown} bytes more`);
});

/** One byte at a time, so seldom that no flood is seen. */
test("who opens its windows a byte at a time is let go", throngOnly, async () => {
  await counted(server, "grpc_closed_stalled", async () => {
    const ended = await inParallel(20, 20, async () => {
      const socket = await open(server, { window: 0 });
      const closed = happens(socket, "close");
      socket.write(call(1, 500));
      for (const until = Date.now() + 4 * WRITE_TIMEOUT_MS; Date.now() < until; ) {
        socket.write(frame(WINDOW_UPDATE, 0, 1, number(1)));
        if (await Promise.race([closed, rest(20)])) return true;
      }
      socket.destroy();
      return false;
    });
    assert.ok(ended.every(Boolean), `${ended.filter((one) => !one).length} connections stay open`);
  });
});

/** What waits for closed windows is bounded for an address, so that others are still answered much. */
test("answers behind closed windows take no core from others", throngOnly, async () => {
  // Of another user, too: those of this one may all be waiting (limit.calls_waiting_per_user).
  const neighbour = (await newPlayer(server)).session;
  const large = async () => {
    const body = JSON.stringify({ text: "x".repeat(1_000), times: 100 });
    const path = `${server.url}/v2/rpc/e2e_repeat?unwrap`;
    const answer = await fetch(path, { method: "POST", headers: bearerOf(neighbour), body });
    const text = await answer.text();
    return answer.status === 200 ? `${text.length} bytes` : `${answer.status} ${text}`;
  };
  const before = await server.counters();
  let held = 0;
  await counted(server, "grpc_answers_refused", async () => {
    const sockets = await inParallel(40, 40, async () => {
      const socket = await open(server, { window: 0, from: ELSEWHERE });
      socket.write(each(20, 1, (id) => call(id, 250)));
      return socket;
    });
    for (const until = Date.now() + ATTACK_MS; Date.now() < until; await rest(50)) {
      held = Math.max(held, (await server.counters()).of("grpc_unwritten_bytes"));
      assert.equal(await large(), "100000 bytes", "a large answer of another address");
    }
    const waiting = async () => (await server.counters()).of("grpc_unwritten_bytes");
    for (const until = Date.now() + 3 * WRITE_TIMEOUT_MS; (await waiting()) > 0; await rest(50)) {
      assert.ok(Date.now() < until, "answers wait on behind closed windows");
    }
    sockets.forEach((socket) => socket.destroy());
  });
  // A quarter of what may wait, and an answer.
  assert.ok(held > MIB && held <= UNSENT_MAX / 4 + 256 * KIB, `${held} bytes waited`);
  const now = await server.counters();
  const risen = (name) => now.of(name) - before.of(name);
  assert.equal(risen("answers_refused"), 0);
  assert.ok(risen("grpc_closed_stalled") > 0, "nobody is let go");
});

test("answers that are to be compressed make nobody wait", throngOnly, async () => {
  const gzip = { "grpc-accept-encoding": "gzip" };
  await counted(server, "answers_not_packed", () =>
    flood(server, { width: 8, ms: ATTACK_MS, window: WINDOW_MAX, next: (stream) => ({
      bytes: Buffer.concat([
        stream === 1 ? frame(WINDOW_UPDATE, 0, 0, number(WINDOW_MAX - 65_535)) : Buffer.alloc(0),
        stream < 4_000 ? each(20, stream, (id) => call(id, 250, gzip)) : Buffer.alloc(0),
      ]),
      streams: 20,
    }) }),
  );
});
