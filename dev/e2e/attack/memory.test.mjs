/**
 * What a match and a socket cost when nobody plays: thousands of them, in the resident memory of the process.
 *
 * Not here: what greedy matches may take (guests.test.mjs).
 */
import { after, before, test } from "node:test";
import { once } from "node:events";
import assert from "node:assert/strict";
import { basic, http, unique } from "../client.mjs";
import { throngOnly, within } from "../server.mjs";
import { CASE_MS_MAX, inParallel, startVictim } from "./rig.mjs";

/** What SPEC.md promises. */
const MATCH_KB_MAX = 100;
const MATCHES = 1_000;
/**
 * Its new account's pages in the database's memory included. Release builds took 1,015 to 1,130 in six runs; with
 * the huge pages that the allocator asks for by default it was up to 2,044.
 */
const SOCKET_BYTES_MAX = 1_536;
/** What a socket costs is the growth from one count to the other: what the first ones need once is not in it. */
const [FEW_SOCKETS, MANY_SOCKETS] = [2_000, 10_000];
/** One call may make 100 (`match.created_per_call_max`). */
const MATCHES_PER_CALL = 50;

let server;
before(async () => {
  // Nobody is asked whether he lives, or closed because he says nothing, while the sockets open.
  const options = { "socket.ping_period_ms": 300_000, "socket.pong_wait_ms": 600_000 };
  if (!throngOnly.skip) server = await startVictim({ options });
});
after(() => server?.stop());

async function make(count) {
  const path = `/v2/rpc/many_empty_matches?http_key=${server.httpKey}&unwrap`;
  const { status, text } = await http(server, "POST", path, { body: String(count) });
  assert.equal(status, 200, text);
}

test(`${MATCHES} empty matches take less than ${MATCH_KB_MAX} KB each`, throngOnly, async (context) => {
  // What the first match of every room needs once.
  await make(MATCHES_PER_CALL);
  const [resident, counted] = [await server.residentBytes(), await server.counters()];
  for (let made = 0; made < MATCHES; made += MATCHES_PER_CALL) await make(MATCHES_PER_CALL);
  const grown = (await server.residentBytes()) - resident;
  const scripts = (await server.counters()).of("match_memory_bytes") - counted.of("match_memory_bytes");
  const each = (bytes) => Math.round(bytes / MATCHES / 100) / 10;
  context.diagnostic(`${each(grown)} KB resident for each match, ${each(scripts)} KB of it in Lua's state`);
  assert.ok(grown > scripts / 2, `${grown} bytes for ${scripts} of scripts`);
  assert.ok(grown < MATCHES * MATCH_KB_MAX * 1000, `${each(grown)} KB for each match`);
});

/** What comes on a connection, up to a pattern; gives the match. */
async function comes(socket, pattern) {
  let text = "";
  const told = async () => {
    for (;;) {
      const [chunk] = await once(socket, "data");
      text += chunk.toString("latin1");
      const found = pattern.exec(text);
      if (found) return found;
    }
  };
  return within(told(), CASE_MS_MAX, () => `no ${pattern} in ${text}`);
}

/** A new account with a socket that makes it appear online, as `throng load ccu` opens them. */
async function idleSocket() {
  const socket = await server.rawConnection();
  const body = JSON.stringify({ id: unique() });
  const key = basic(server.serverKey).authorization;
  socket.write(
    "POST /v2/account/authenticate/device?create=true HTTP/1.1\r\nhost: t\r\n" +
      `authorization: ${key}\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
  const [, token] = await comes(socket, /"token":"([^"]+)"/);
  socket.write(
    `GET /ws?lang=en&status=true&token=${token} HTTP/1.1\r\nhost: t\r\nupgrade: websocket\r\n` +
      "connection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
  );
  await comes(socket, /101 Switching Protocols/);
  socket.on("data", () => {});
  return socket;
}

/** Resident bytes once so many sockets are open and known to all threads. */
async function residentWith(sockets, count) {
  sockets.push(...(await inParallel(count - sockets.length, 64, idleSocket)));
  const known = async () => (await server.counters()).of("sessions") === count;
  const allKnown = async () => {
    while (!(await known()));
  };
  await within(allKnown(), CASE_MS_MAX, () => `${count} sockets are not all known`);
  return server.residentBytes();
}

test(`an idle socket takes less than ${SOCKET_BYTES_MAX} bytes`, throngOnly, async (context) => {
  const sockets = [];
  try {
    const few = await residentWith(sockets, FEW_SOCKETS);
    const many = await residentWith(sockets, MANY_SOCKETS);
    const each = Math.round((many - few) / (MANY_SOCKETS - FEW_SOCKETS));
    context.diagnostic(`${each} bytes resident for each socket`);
    assert.ok(each < SOCKET_BYTES_MAX, `${each} bytes for each socket`);
  } finally {
    for (const socket of sockets) socket.destroy();
  }
});
