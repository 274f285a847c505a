/**
 * Clients that send without end, do not take their answers, or drip: what they cost stays bounded, their neighbour
 * does not wait, and the memory is given back.
 */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { connect } from "node:net";
import { once } from "node:events";
import { gzipSync, inflateRawSync } from "node:zlib";
import { WebSocket } from "ws";
import { throngOnly } from "../server.mjs";
import { newPlayer } from "../client.mjs";
import { besideNeighbour, inParallel, startVictim } from "./rig.mjs";

const MIB = 1 << 20;
const rest = (ms) => new Promise((rested) => setTimeout(rested, ms));
const UNSENT_MAX = 32 * MIB;
const WRITE_TIMEOUT_MS = 2_000;
const READ_TIMEOUT_MS = 1_500;

let server;
before(async () => {
  if (throngOnly.skip) return;
  const options = {
    "limit.unsent_max_bytes": UNSENT_MAX,
    "socket.write_timeout_ms": WRITE_TIMEOUT_MS,
    "socket.read_timeout_ms": READ_TIMEOUT_MS,
    "session.token_expiry_sec": 3_600,
  };
  server = await startVictim({ options });
});
after(() => server?.stop());

const request = (line, token, body = "") =>
  `${line} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n` +
  `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;

/** Writes without end, as fast as it is read, until `until` (milliseconds since 1970). */
async function pour(socket, bytes, until) {
  while (Date.now() < until && !socket.destroyed) {
    if (!socket.write(bytes)) await Promise.race([once(socket, "drain").catch(() => {}), rest(until - Date.now())]);
  }
}

test("pipelining holds little and makes nobody wait", throngOnly, async () => {
  const { session } = await newPlayer(server);
  const resident = await server.residentBytes();
  const requests = Buffer.from(request("GET /v2/account", session.token).repeat(200));
  let held = 0;
  await besideNeighbour(server, async () => {
    const until = Date.now() + 3_000;
    await inParallel(40, 40, async (index) => {
      const socket = await server.rawConnection();
      socket.resume();
      if (index > 0) await pour(socket, requests, until);
      else
        for (; Date.now() < until; await rest(50)) {
          const counters = await server.counters();
          held = Math.max(held, counters.of("input_bytes_waiting") + counters.of("input_bytes_held"));
        }
      socket.destroy();
    });
  });
  const counters = await server.counters();
  assert.ok(counters.of("read_pauses") > 0);
  // 64 KiB and one read of the engine; with the ring, once, what the kernel delivers before a stop reaches it.
  assert.ok(held > 0 && held <= 40 * MIB, `${held} bytes held`);
  const grown = (await server.residentBytes()) - resident;
  assert.ok(grown < 64 * MIB, `${grown} bytes more`);
});

test("bodies sent without end take no buffers from others", throngOnly, async () => {
  const body = "1\r\nx\r\n".repeat(40_000);
  const upload = Buffer.from(
    `POST /v2/account HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${body}0\r\n\r\n`,
  );
  await besideNeighbour(server, async () => {
    const until = Date.now() + 3_000;
    await inParallel(30, 30, async () => {
      const socket = await server.rawConnection();
      socket.resume();
      await pour(socket, upload, until);
      socket.destroy();
    });
  });
});

test("messages sent ahead on sockets hold little", throngOnly, async () => {
  const { session } = await newPlayer(server);
  const payload = Buffer.from(JSON.stringify({ cid: "1", status_update: { status: "here" } }));
  const frame = Buffer.concat([Buffer.from([0x81, 0x80 | payload.length, 0, 0, 0, 0]), payload]);
  await besideNeighbour(server, () =>
    inParallel(20, 20, async () => {
      const socket = new WebSocket(`ws://${server.host}:${server.port}/ws?token=${session.token}`);
      await once(socket, "open");
      await pour(socket._socket, Buffer.concat(Array(500).fill(frame)), Date.now() + 2_000);
      socket.terminate();
    }),
  );
  const waiting = (await server.counters()).of("input_bytes_waiting");
  assert.ok(waiting <= 20 * MIB, `${waiting} bytes wait`);
});

test("an object named a thousand times is answered once", throngOnly, async () => {
  const { client, session } = await newPlayer(server);
  const object = { collection: "c", key: "k", value: { text: "x".repeat(250_000) } };
  await client.writeStorageObjects(session, [object]);
  const id = `{"collection":"c","key":"k","user_id":"${session.user_id}"}`;
  const body = `{"object_ids":[${Array(1_000).fill(id).join(",")}]}`;
  const resident = await server.residentBytes();
  await besideNeighbour(server, () =>
    inParallel(8, 8, async () => {
      const response = await fetch(`${server.url}/v2/storage`, {
        method: "POST",
        headers: { authorization: `Bearer ${session.token}` },
        body,
      });
      assert.equal(response.status, 200);
      assert.ok((await response.text()).length < 300_000);
    }),
  );
  const grown = (await server.residentBytes()) - resident;
  assert.ok(grown < 64 * MIB, `${grown} bytes more`);
});

test("answers that nobody takes are bounded, dropped in time, and given back", throngOnly, async () => {
  const { client, session } = await newPlayer(server);
  for (let key = 0; key < 20; key++) {
    const value = { text: "x".repeat(180_000) };
    await client.writeStorageObjects(session, [{ collection: "large", key: `${key}`, value }]);
  }
  const page = request(`GET /v2/storage/large?user_id=${session.user_id}&limit=20`, session.token);
  const before = await server.counters();
  const resident = await server.residentBytes();
  let [unsent, peak] = [0, 0];
  const reasons = ["closed_output_stalled", "closed_output_limit", "closed_output_total"];
  const dropped = (counters) => reasons.reduce((sum, name) => sum + counters.of(name), 0);
  await besideNeighbour(server, async () => {
    // Not read from: node takes what fits in its own buffer, and the kernel what fits in its.
    const sockets = await inParallel(20, 8, () => server.rawConnection());
    for (const socket of sockets) socket.pause().write(page.repeat(4));
    // Until it is much, then until it is dropped.
    const look = async (isEnough) => {
      for (const end = Date.now() + 12_000; Date.now() < end; await rest(100)) {
        const now = await server.counters();
        unsent = Math.max(unsent, now.of("output_bytes_unsent"));
        peak = Math.max(peak, (await server.residentBytes()) - resident);
        if (isEnough(now)) return;
      }
      assert.fail(`at most ${unsent} bytes unsent, and not dropped in time`);
    };
    // The kernel takes some millions of bytes for each connection before anything is unsent here, more or
    // less by its mood: so it is for one of three reasons that a connection is given up.
    await look((now) => dropped(now) > dropped(before));
    await look((now) => now.of("output_bytes_unsent") < MIB);
    for (const socket of sockets) socket.destroy();
    // What is still to be read for them must not make the cases below wait.
    while ((await server.counters()).of("jobs_waiting") > 10) await rest(100);
  });
  const now = await server.counters();
  assert.ok(unsent <= UNSENT_MAX + 8 * MIB, `${unsent} bytes unsent`);
  // Besides what is unsent: answers under way between threads, and what the kernel copied from.
  assert.ok(peak < 4 * UNSENT_MAX, `${peak} bytes more at the peak`);
  assert.ok(dropped(now) > dropped(before));
  for (const end = Date.now() + 3_000; (await server.residentBytes()) - resident > 32 * MIB; await rest(100)) {
    const more = (await server.residentBytes()) - resident;
    assert.ok(Date.now() < end, `${more} bytes are not given back`);
  }
});

test("who asks for more than it reads is made to wait, and loses nothing", throngOnly, async () => {
  const { client, session } = await newPlayer(server);
  for (let key = 0; key < 20; key++) {
    const value = { text: "x".repeat(180_000) };
    await client.writeStorageObjects(session, [{ collection: "large", key: `${key}`, value }]);
  }
  const page = request(`GET /v2/storage/large?user_id=${session.user_id}&limit=20`, session.token);
  const [PAGES, PAGE_BYTES_MIN] = [8, 20 * 180_000];
  const before = await server.counters();
  await besideNeighbour(server, async () => {
    await inParallel(3, 3, async () => {
      const socket = await server.rawConnection();
      let bytes = 0;
      socket.pause().write(page.repeat(PAGES));
      // Shorter than a stalled client is borne with.
      await rest(WRITE_TIMEOUT_MS / 2);
      socket.on("data", (data) => (bytes += data.length)).resume();
      for (const end = Date.now() + 15_000; bytes < PAGES * PAGE_BYTES_MIN; await rest(20)) {
        assert.ok(!socket.destroyed && !socket.readableEnded, `closed after ${bytes} bytes`);
        assert.ok(Date.now() < end, `${bytes} bytes in time`);
      }
      socket.destroy();
    });
  });
  const now = await server.counters();
  assert.equal(now.of("closed_output_limit"), before.of("closed_output_limit"));
  assert.ok(now.of("answers_awaited") > before.of("answers_awaited"));
});

test("frames that drip are ended", throngOnly, async () => {
  const { session } = await newPlayer(server);
  const closed = (await server.counters()).of("socket_ws_closed_slow");
  const frame = Buffer.from([0x81, 0xfe, 0x0f, 0x00, 0, 0, 0, 0, ...Array(100).fill(0x20)]);
  await besideNeighbour(server, () =>
    inParallel(30, 30, async () => {
      const socket = new WebSocket(`ws://${server.host}:${server.port}/ws?token=${session.token}`);
      await once(socket, "open");
      let code;
      socket.on("close", (closedWith) => (code = closedWith));
      for (let at = 0; code === undefined && at < frame.length; at++, await rest(100)) {
        socket._socket.write(frame.subarray(at, at + 1));
      }
      assert.equal(code, 1008);
    }),
  );
  assert.equal((await server.counters()).of("socket_ws_closed_slow") - closed, 30);
});

test("a flood in a relayed match cuts off no slow member", throngOnly, async () => {
  const players = await inParallel(2, 2, () => newPlayer(server));
  const [flooder, slow] = await inParallel(2, 2, async (index) => {
    const { token } = players[index].session;
    const socket = new WebSocket(`ws://${server.host}:${server.port}/ws?token=${token}`);
    await once(socket, "open");
    return socket;
  });
  const answer = async (socket, message, name) => {
    socket.send(JSON.stringify({ cid: "1", ...message }));
    for (;;) {
      const [data] = await once(socket, "message");
      const envelope = JSON.parse(data);
      if (envelope[name]) return envelope[name];
    }
  };
  const { match_id } = await answer(flooder, { match_create: {} }, "match");
  await answer(slow, { match_join: { match_id } }, "match");
  let code;
  let bytes = 0;
  slow.on("close", (closedWith) => (code = closedWith));
  slow.on("message", (data) => (bytes += data.length));
  const data = Buffer.alloc(2_048, "x").toString("base64");
  const message = JSON.stringify({ match_data_send: { match_id, op_code: "1", data } });
  const dropped = (await server.counters()).of("output_dropped");
  await besideNeighbour(server, async () => {
    // Reads twice a second what node takes at one go, 2 MiB at most: less than what is sent, however slow it is.
    const drip = setInterval(() => {
      slow._socket.resume();
      setImmediate(() => slow._socket.pause());
    }, 500);
    // Until the kernel's buffers are full too, which may be dozens of megabytes, and some of it is dropped here.
    const isDropped = async () => (await server.counters()).of("output_dropped") > dropped;
    for (const end = Date.now() + 20_000; Date.now() < end && !(await isDropped()); ) {
      for (const pause = Date.now() + 1_000; Date.now() < pause; await rest(2)) {
        for (let count = 0; count < 50; count++) flooder.send(message);
        while (flooder.bufferedAmount > MIB && Date.now() < pause) await rest(1);
      }
    }
    clearInterval(drip);
    slow._socket.resume();
    await rest(300);
  });
  assert.equal(code, undefined, "the slow member was cut off");
  assert.ok(bytes > 0);
  const counters = await server.counters();
  assert.ok(counters.of("relayed_messages_excess") > 0);
  assert.ok(counters.of("output_dropped") > dropped);
  flooder.terminate();
  slow.terminate();
});

test("connections of one address leave room for those of others", throngOnly, async () => {
  const [ADDRESS_MAX, TRIED] = [100, 600];
  const strict = await startVictim({
    options: {
      "engine.cores": 1,
      "engine.connections_max": 4 * ADDRESS_MAX,
      "limit.connections_per_address": ADDRESS_MAX,
      "limit.exempt_addresses": "10.0.0.0/8",
    },
  });
  const said = strict.heard(/limit\.connections_per_address/);
  const sockets = [];
  /** A connection from another address of loopback, and what it is told unasked. */
  const hostile = () => {
    const socket = connect({ host: strict.host, port: Number(strict.port), localAddress: "127.0.0.2" });
    const one = { socket, text: "" };
    socket.on("error", () => {}).on("data", (data) => (one.text += data));
    sockets.push(one);
    return Promise.race([once(socket, "connect"), once(socket, "close")]).catch(() => {});
  };
  try {
    await besideNeighbour(strict, async () => {
      await inParallel(TRIED, 50, hostile);
      for (let asked = 0; asked < 20; asked++, await rest(20)) {
        const answer = await fetch(`${strict.url}/healthcheck`, { headers: { connection: "close" } });
        assert.equal(answer.status, 200);
      }
    });
    const open = sockets.filter(({ socket }) => !socket.destroyed && !socket.readableEnded);
    assert.ok(open.length <= ADDRESS_MAX, `${open.length} are open`);
    const told = sockets.filter(({ text }) => text.includes("limit.connections_per_address"));
    assert.ok(told.length > 0 && told[0].text.startsWith("HTTP/1.1 429 "), told[0]?.text);
    const counters = await strict.counters();
    const limited = counters.of("limited_connections_per_address");
    assert.equal(counters.of("accept_refused"), 0);
    assert.ok(limited >= TRIED - ADDRESS_MAX, `${limited} were refused`);
    assert.ok(said.length > 0, strict.logTail());
  } finally {
    for (const { socket } of sockets) socket.destroy();
    await strict.stop();
  }
});

test("silent connections to the metrics port delay no scrape", throngOnly, async () => {
  const silent = await inParallel(10, 10, async () => {
    const socket = connect({ host: server.host, port: server.metricsPort });
    socket.on("error", () => {});
    await once(socket, "connect");
    return socket;
  });
  const began = Date.now();
  await server.counters();
  assert.ok(Date.now() - began < 500, `the scrape took ${Date.now() - began} ms`);
  for (const socket of silent) socket.destroy();
});

test("bodies that unpack to nothing cost little, however many blocks they have", throngOnly, async () => {
  // 208,000 empty blocks of deflate, each of which asks a decoder to begin anew; 13,000 empty members of gzip.
  const block = Buffer.from([0x02, 0x08, 0x20, 0x80, 0x00]);
  const blocks = Buffer.concat([...Array(52_000).fill(block), Buffer.from([0x03, 0x00])]);
  const members = Buffer.concat(Array(13_000).fill(gzipSync("")));
  assert.equal(inflateRawSync(blocks).length, 0);
  const head = (coding, body) =>
    `POST /v2/account/authenticate/device HTTP/1.1\r\nHost: a\r\nContent-Encoding: ${coding}\r\n` +
    `Content-Length: ${body.length}\r\n\r\n`;
  const requests = [["deflate", blocks], ["gzip", members]].map(([coding, body]) =>
    Buffer.concat([Buffer.from(head(coding, body)), body]),
  );
  await besideNeighbour(server, async () => {
    const until = Date.now() + 3_000;
    await inParallel(10, 10, async (index) => {
      const socket = await server.rawConnection();
      socket.resume();
      await pour(socket, requests[index % 2], until);
      socket.destroy();
    });
  });
});
