/**
 * Sizes and splits: bodies, frames and answers around every size at which a buffer, a frame header or a write may
 * break, requests and frames that arrive a byte at a time or many in one write, and readers that are slow. Other
 * people's io_uring servers lost messages exactly there, so this list runs on both drivers.
 */
import { after, before, describe, test } from "node:test";
import assert from "node:assert/strict";
import { connect } from "node:net";
import { once } from "node:events";
import { randomBytes } from "node:crypto";
import { startServer, within } from "./server.mjs";
import {
  bearer,
  FORMATS,
  http,
  newPlayer,
  newSocketPlayer,
  RawSocket,
  SOON_MS,
} from "./client.mjs";

let server;
let player;
before(async () => {
  server = await startServer();
  player = await newPlayer(server);
});
after(() => server?.stop());

/** Around powers of two, where buffers end. */
const sizesUpTo = (max) => {
  const sizes = [0, 1, 2, 125, 126, 127];
  for (let size = 128; size <= max; size *= 2) sizes.push(size - 1, size, size + 1);
  return sizes.filter((size) => size <= max);
};
/** Text of a length in which every place differs from its neighbours, so that a shift is seen. */
const textOfLength = (length) => {
  let text = "";
  for (let n = 0; text.length < length; n += 1) text += `${n},`;
  return text.slice(0, length);
};
const echo = (body) =>
  http(server, "POST", "/v2/rpc/e2e_echo?unwrap", { headers: bearer(player.session), body });

describe("HTTP", () => {
  test("bodies of every size come back", async () => {
    for (const size of sizesUpTo(262_144)) {
      const sent = textOfLength(size);
      const answer = await echo(sent);
      assert.equal(answer.status, 200, `${size} bytes: ${answer.text.slice(0, 200)}`);
      assert.ok(answer.text === sent, `${size} bytes came back as ${answer.text.length}`);
    }
  });

  test("bodies of random bytes and sizes, sixteen at a time", async () => {
    const one = async () => {
      for (let n = 0; n < 10; n += 1) {
        const sent = randomBytes(Math.floor(Math.random() * 20_000)).toString("base64");
        assert.ok((await echo(sent)).text === sent);
      }
    };
    await Promise.all(Array.from({ length: 16 }, one));
  });

  test("an answer of a megabyte, read slowly", async () => {
    const times = 100_000;
    const socket = connect(Number(server.port), server.host);
    await once(socket, "connect");
    const body = JSON.stringify({ text: "0123456789", times });
    socket.write(
      `POST /v2/rpc/e2e_repeat?unwrap HTTP/1.1\r\nHost: x\r\nConnection: close\r\n` +
        `Authorization: Bearer ${player.session.token}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    let answer = "";
    socket.setEncoding("latin1");
    socket.on("data", (text) => {
      answer += text;
      socket.pause();
      setImmediate(() => setImmediate(() => socket.resume()));
    });
    await within(once(socket, "close"), 4 * SOON_MS, () => `only ${answer.length} bytes came`);
    const content = answer.slice(answer.indexOf("\r\n\r\n") + 4);
    assert.ok(content.includes("0123456789".repeat(1_000)));
    assert.ok(content.length >= 10 * times, `${content.length} bytes`);
  });

  test("two hundred requests in one write are answered in order", async () => {
    const socket = connect(Number(server.port), server.host);
    await once(socket, "connect");
    const request = (n, close) =>
      `POST /v2/rpc/e2e_echo?unwrap HTTP/1.1\r\nHost: x\r\n${close ? "Connection: close\r\n" : ""}` +
      `Authorization: Bearer ${player.session.token}\r\nContent-Length: 8\r\n\r\n<${String(n).padStart(6, "0")}>`;
    const count = 200;
    let all = "";
    for (let n = 0; n < count; n += 1) all += request(n, n === count - 1);
    let answer = "";
    socket.setEncoding("latin1").on("data", (text) => (answer += text));
    socket.write(all);
    await within(once(socket, "close"), 4 * SOON_MS, () => answer.slice(-500));
    const numbers = [...answer.matchAll(/<(\d{6})>/g)].map((m) => Number(m[1]));
    assert.deepEqual(
      numbers,
      Array.from({ length: count }, (_, n) => n),
    );
  });
});

describe("WebSocket", () => {
  for (const format of FORMATS) {
    test(`${format}: payloads of every size come back`, async () => {
      const { socket, leave } = await newSocketPlayer(server, { format });
      for (const size of [...sizesUpTo(4_000), 3_999, 4_000]) {
        const sent = textOfLength(size);
        assert.equal((await socket.rpc("e2e_echo", sent)).payload || "", sent);
      }
      leave();
    });

    test(`${format}: answers of every size arrive`, async () => {
      const { socket, leave } = await newSocketPlayer(server, { format });
      for (const size of sizesUpTo(131_072)) {
        const input = JSON.stringify({ text: "x", times: size });
        assert.equal(((await socket.rpc("e2e_repeat", input)).payload ?? "").length, size);
      }
      leave();
    });
  }

  test("match data of every size passes between two players", async () => {
    const [one, two] = [
      await newSocketPlayer(server),
      await newSocketPlayer(server, { format: "protobuf" }),
    ];
    const { match_id } = await one.socket.createMatch();
    await two.socket.joinMatch(match_id);
    for (const size of sizesUpTo(2_900)) {
      const sent = new TextEncoder().encode(textOfLength(size));
      one.socket.sendMatchState(match_id, 1, sent);
      assert.deepEqual(Buffer.from((await two.next("match_data")).data ?? []), Buffer.from(sent));
      two.socket.sendMatchState(match_id, 1, sent);
      assert.deepEqual(Buffer.from((await one.next("match_data")).data ?? []), Buffer.from(sent));
    }
    one.leave();
    two.leave();
  });

  /** A client frame, masked, with the length in its shortest form. */
  const frame = (text) => {
    const payload = Buffer.from(text);
    const mask = Buffer.from([1, 2, 3, 4]);
    const head =
      payload.length < 126
        ? Buffer.from([0x81, 0x80 | payload.length])
        : Buffer.from([0x81, 0xfe, payload.length >> 8, payload.length & 255]);
    return Buffer.concat([head, mask, payload.map((byte, n) => byte ^ mask[n % 4])]);
  };
  /** Opens a socket by hand; `received` collects every byte after the handshake. */
  const openByHand = async () => {
    const socket = connect(Number(server.port), server.host).setNoDelay(true);
    await once(socket, "connect");
    const state = { socket, received: "" };
    socket.setEncoding("latin1").on("data", (text) => (state.received += text));
    return state;
  };
  const handshake = () =>
    `GET /ws?token=${player.session.token} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n` +
    `Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n`;
  const untilReceived = (state, text) =>
    within(
      (async () => {
        while (!state.received.includes(text)) await once(state.socket, "data");
      })(),
      SOON_MS,
      () => `no ${text} in ${JSON.stringify(state.received)}`,
    );

  const writeByteByByte = async (state, bytes) => {
    for (const byte of bytes) {
      await new Promise((done) => state.socket.write(Buffer.from([byte]), done));
    }
  };

  test("handshake and frames a byte at a time", async () => {
    const state = await openByHand();
    await writeByteByByte(state, Buffer.from(handshake()));
    await untilReceived(state, "\r\n\r\n");
    assert.match(state.received, /^HTTP\/1\.1 101 /);
    for (const cid of ["drop by drop", "y".repeat(300)]) {
      await writeByteByByte(state, frame(JSON.stringify({ cid, ping: {} })));
      await untilReceived(state, cid);
    }
    state.socket.destroy();
  });

  test("frames that do not wait for the handshake are answered, or the connection is closed", async () => {
    const state = await openByHand();
    const bytes = [Buffer.from(handshake())];
    for (let n = 0; n < 20; n += 1) {
      bytes.push(frame(JSON.stringify({ cid: `early-${n}.`, ping: {} })));
    }
    const closed = once(state.socket, "close").then(() => true);
    state.socket.on("error", () => {});
    state.socket.write(Buffer.concat(bytes));
    const received = untilReceived(state, "early-19.");
    received.catch(() => {}); // It may lose the race.
    if (!(await Promise.race([closed, received]))) {
      for (let n = 0; n < 20; n += 1) assert.ok(state.received.includes(`early-${n}.`));
    }
    state.socket.destroy();
  });

  test("a hundred sockets at once, each with its own answers", async () => {
    // Of five players: one may have 32 (limit.sockets_per_user).
    const players = await Promise.all(Array.from({ length: 5 }, () => newPlayer(server)));
    const raws = await Promise.all(
      Array.from({ length: 100 }, (_, n) =>
        RawSocket.open(server, players[n % players.length].session.token),
      ),
    );
    const talk = async (raw, n) => {
      for (let round = 0; round < 5; round += 1) {
        const payload = `${n}/${round}`;
        const { rpc } = await raw.request({ rpc: { id: "e2e_echo", payload } });
        assert.equal(rpc.payload, payload);
      }
    };
    await Promise.all(raws.map(talk));
    raws.forEach((raw) => raw.close());
  });
});
