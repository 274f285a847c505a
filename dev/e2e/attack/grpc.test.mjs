/**
 * Floods, slow senders and slow takers over gRPC: each is bounded and let go, neighbours over REST, WebSocket and
 * gRPC do not wait, and the memory is given back.
 */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { throngOnly } from "../server.mjs";
import { newPlayer } from "../client.mjs";
import { besideNeighbour, inParallel, startVictim } from "./rig.mjs";
import {
  CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, WINDOW_UPDATE,
  begin, frame, framed, head, number, rpcMessage,
} from "./grpc.mjs";
import { NEIGHBOUR, counted, flood, happens, open, rest } from "./floods.mjs";

const MIB = 1 << 20;
const READ_TIMEOUT_MS = 1_500;
const WRITE_TIMEOUT_MS = 2_000;
/** What attackers do together takes so long. */
const ATTACK_MS = 3_000;

let server;
let bearer;
before(async () => {
  if (throngOnly.skip) return;
  const options = {
    "engine.cores": 1,
    "socket.read_timeout_ms": READ_TIMEOUT_MS,
    "socket.write_timeout_ms": WRITE_TIMEOUT_MS,
    "session.token_expiry_sec": 3_600,
  };
  server = await startVictim({ options });
  bearer = `Bearer ${(await newPlayer(server)).session.token}`;
});
after(() => server?.stop());

/** A flood for as long as attacks take here. */
const storm = (width, next) => flood(server, { width, ms: ATTACK_MS, next });

/** Whole calls, each taken back at once (CVE-2023-44487). */
test("rapid resets end the connection", throngOnly, async () => {
  const block = head("RpcFunc", { authorization: bearer });
  const body = framed(rpcMessage("e2e_echo", "x"));
  const ended = await counted(server, "grpc_closed_flooding", () =>
    storm(20, (stream) => {
      const calls = Array.from({ length: 100 }, (_, index) => stream + 2 * index).map((id) =>
        Buffer.concat([
          frame(HEADERS, END_HEADERS, id, block),
          frame(DATA, END_STREAM, id, body),
          frame(RST_STREAM, 0, id, number(8)),
        ]),
      );
      return { bytes: Buffer.concat(calls), streams: 100 };
    }),
  );
  assert.ok(ended >= 20, `${ended} connections were ended`);
});

test("floods of frames without calls end the connection", throngOnly, async () => {
  const many = (bytes) => Buffer.concat(Array(500).fill(bytes));
  for (const [name, bytes] of [
    ["pings", many(frame(PING, 0, 0, Buffer.alloc(8)))],
    ["settings", many(frame(4, 0, 0))],
    ["windows", many(frame(WINDOW_UPDATE, 0, 0, number(1)))],
  ]) {
    const ended = await counted(server, "grpc_closed_flooding", () => storm(10, () => ({ bytes, streams: 0 })));
    assert.ok(ended >= 10, `${name}: ${ended} connections were ended`);
  }
});

/** Header blocks that never end (CVE-2024-27316), and ones that unpack to much. */
test("header blocks are bounded", throngOnly, async () => {
  const crumbs = Buffer.concat(Array(500).fill(frame(CONTINUATION, 0, 1, Buffer.from("x"))));
  await counted(server, "grpc_closed_flooding", () =>
    storm(10, (stream) => ({
      bytes: stream === 1 ? Buffer.concat([frame(HEADERS, 0, 1), crumbs]) : crumbs,
      streams: 1,
    })),
  );
  // One entry of 4,000 bytes in the table, named 120 times in each block.
  const entry = Buffer.concat([Buffer.from([0x40, 1, 97, 127, 161, 30]), Buffer.alloc(4_000, 97)]);
  const bomb = Buffer.concat([Buffer.from([0x83, 0x86, 0x84]), entry, Buffer.alloc(120, 0xbe)]);
  const resident = await server.residentBytes();
  await besideNeighbour(
    server,
    () =>
      storm(10, (stream) => ({
        bytes: Buffer.concat(
          Array.from({ length: 50 }, (_, index) =>
            frame(HEADERS, END_HEADERS | END_STREAM, stream + 2 * index, bomb),
          ),
        ),
        streams: 50,
      })),
    NEIGHBOUR,
  );
  const grown = (await server.residentBytes()) - resident;
  assert.ok(grown < 64 * MIB, `${grown} bytes more`);
});

test("slow headers and bodies are let go", throngOnly, async () => {
  const drips = [
    // Not even a preface, a preface in drips, a frame in drips, a header block that is not ended.
    (socket, at) => socket.write(begin().subarray(at, at + 1)),
    (socket, at) => socket.write(at === 0 ? begin() : frame(HEADERS, END_HEADERS, 1, head("X")).subarray(at, at + 1)),
    (socket, at) => socket.write(at === 0 ? Buffer.concat([begin(), frame(HEADERS, 0, 1, head("X"))]) : ""),
  ];
  const bodies = (socket, at) =>
    socket.write(
      at === 0
        ? Buffer.concat([begin(), frame(HEADERS, END_HEADERS, 1, head("GetAccount", { authorization: bearer }))])
        : frame(DATA, 0, 1, Buffer.from("x")),
    );
  const drip = async (act) => {
    const socket = await server.rawConnection(server.grpcPort);
    const closed = happens(socket.resume(), "close");
    for (let at = 0; at < 40 && !socket.destroyed; at++) {
      act(socket, at);
      if (await Promise.race([closed, rest(150)])) return true;
    }
    socket.destroy();
    return false;
  };
  await counted(server, "grpc_closed_slow", async () => {
    const ended = await inParallel(60, 60, (index) => drip(drips[index % drips.length]));
    assert.ok(ended.every(Boolean), `${ended.filter((one) => !one).length} slow connections stay open`);
    await inParallel(20, 20, () => drip(bodies));
  });
});

test("many streams from one address hold little", throngOnly, async () => {
  const resident = await server.residentBytes();
  const block = head("RpcFunc", { authorization: bearer });
  const half = frame(DATA, 0, 1, Buffer.alloc(16_000)).subarray(9);
  await counted(server, "grpc_streams_refused", async () => {
    const sockets = await inParallel(40, 40, async () => {
      const socket = await open(server);
      for (let index = 0; index < 120 && !socket.destroyed; index++) {
        const id = 2 * index + 1;
        socket.write(Buffer.concat([frame(HEADERS, END_HEADERS, id, block), frame(DATA, 0, id, half)]));
      }
      return socket;
    });
    await rest(1_000);
    sockets.forEach((socket) => socket.destroy());
  });
  const grown = (await server.residentBytes()) - resident;
  // Of each connection a MiB of requests that are not whole, and what the kernel has delivered of it.
  assert.ok(grown < 120 * MIB, `${grown} bytes more`);
});

test("answers that are not taken end the connection", throngOnly, async () => {
  const block = head("RpcFunc", { authorization: bearer });
  const big = framed(rpcMessage("e2e_repeat", JSON.stringify({ text: "x".repeat(1_000), times: 500 })));
  const resident = await server.residentBytes();
  await counted(server, "grpc_closed_stalled", async () => {
    const sockets = await inParallel(10, 10, async () => {
      const socket = await open(server, { window: 0 });
      for (let index = 0; index < 20; index++) {
        const id = 2 * index + 1;
        socket.write(Buffer.concat([frame(HEADERS, END_HEADERS, id, block), frame(DATA, END_STREAM, id, big)]));
      }
      return socket;
    });
    let held = 0;
    for (const until = Date.now() + 3 * WRITE_TIMEOUT_MS; Date.now() < until; await rest(100)) {
      held = Math.max(held, (await server.counters()).of("grpc_unwritten_bytes"));
    }
    assert.ok(held > MIB, `${held} bytes waited`);
    sockets.forEach((socket) => socket.destroy());
  });
  assert.equal((await server.counters()).of("grpc_unwritten_bytes"), 0);
  const grown = (await server.residentBytes()) - resident;
  assert.ok(grown < 160 * MIB, `${grown} bytes more`);
});

test("every connection is given back", throngOnly, async () => {
  for (const end = Date.now() + 5_000; (await server.counters()).of("grpc_connections") > 0; await rest(50)) {
    assert.ok(Date.now() < end, "connections of gRPC remain");
  }
});
