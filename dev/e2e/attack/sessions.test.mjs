/**
 * Tokens that ought to be dead, accounts that ought to be gone, and addresses that are not the client's: what is
 * revoked stays so whatever others do and however the server ends, and nobody is believed who he says he is.
 */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { basic, bearer, claimsOf, forgeToken, http, newPlayer, RawSocket } from "../client.mjs";
import { startServer, throngOnly, within } from "../server.mjs";
import { besideNeighbour, CASE_MS_MAX, inParallel, startVictim } from "./rig.mjs";

const json = (value) => JSON.stringify(value);
const rest = (ms) => new Promise((rested) => setTimeout(rested, ms));
const seconds = () => Math.floor(Date.now() / 1000);

/** How long others log out in masses. */
const LOG_OUTS_MS = 4_000;
const YEAR_S = 365 * 86_400;

let server;
before(async () => {
  if (!throngOnly.skip) server = await startVictim({ options: { "session.token_expiry_sec": 3_600 } });
});
after(() => server?.stop());

async function rpc(on, id, payload) {
  const path = `/v2/rpc/${id}?http_key=${on.httpKey}&unwrap`;
  const answer = await http(on, "POST", path, { body: json(payload) });
  assert.equal(answer.status, 200, answer.text);
  return answer.text;
}

const ban = (on, { user_id }) => rpc(on, "e2e_ban", { user_id });
const longToken = (on, { user_id }) => rpc(on, "sessions_token", { user_id, exp: seconds() + YEAR_S });
const logOut = (on, { token, refresh_token }) =>
  http(on, "POST", "/v2/session/logout", { headers: bearer(token), body: json({ token, refresh_token }) });
const account = (on, token) => http(on, "GET", "/v2/account", { headers: bearer(token) });

/** All that a token can be good for is refused. */
async function isDead(on, token, what) {
  const write = { objects: [{ collection: "dead", key: "k", value: "{}" }] };
  const answers = {
    account: await account(on, token),
    storage: await http(on, "PUT", "/v2/storage", { headers: bearer(token), body: json(write) }),
    rpc: await http(on, "POST", "/v2/rpc/e2e_echo", { headers: bearer(token), body: '"x"' }),
  };
  for (const [name, { status, text }] of Object.entries(answers)) {
    assert.equal(status, 401, `${what}: ${name} answers ${status} ${text}`);
  }
  const socket = await RawSocket.open(on, token).catch((refused) => refused);
  assert.equal(socket.status, 401, `${what}: the socket opens`);
}

/** A refresh token makes no new session. */
async function makesNoSession(on, refreshToken, what) {
  const answer = await http(on, "POST", "/v2/account/session/refresh", {
    headers: basic(on.serverKey),
    body: json({ token: refreshToken }),
  });
  assert.ok([401, 403].includes(answer.status), `${what}: refresh answers ${answer.status} ${answer.text}`);
}

/** A login of somebody of whom the server has never heard, as valid as any. */
function stranger() {
  const [iat, exp] = [seconds(), seconds() + 3_600];
  return forgeToken({ tid: randomUUID(), uid: randomUUID(), usn: "stranger", iat, exp });
}

test("a banned user is not freed by the log-outs of others", throngOnly, async () => {
  const { session } = await newPlayer(server);
  const long = await longToken(server, session);
  assert.equal((await account(server, long)).status, 200);
  await ban(server, session);
  let [logOuts, tries] = [0, 0];
  const harm = async () => {
    const end = Date.now() + LOG_OUTS_MS;
    const byClients = inParallel(8, 8, async () => {
      while (Date.now() < end) {
        const token = stranger();
        assert.equal((await logOut(server, { token, refresh_token: "" })).status, 200);
        logOuts += 1;
      }
    });
    const byScript = (async () => {
      for (; Date.now() < end; await rest(20)) {
        logOuts += JSON.parse(await rpc(server, "sessions_log_outs", { count: 5 })).done;
      }
    })();
    const trying = inParallel(2, 2, async (index) => {
      for (const token = [session.token, long][index]; Date.now() < end; tries += 1) {
        const { status } = await account(server, token);
        assert.equal(status, 401, `freed after ${logOuts} log-outs`);
        await rest(5);
      }
    });
    await Promise.all([byClients, byScript, trying]);
  };
  await besideNeighbour(server, harm, { kinds: ["rpc", "authenticate"] });
  assert.ok(logOuts > 50 && tries > 10, `${logOuts} log-outs, ${tries} tries`);
  await isDead(server, session.token, "banned");
  await isDead(server, long, "banned, with a long token");
  await makesNoSession(server, session.refresh_token, "banned");
  const counters = await server.counters();
  assert.equal(counters.of("revocations_forgotten"), 0);
  assert.ok(counters.of("banned_users") >= 1);
});

for (const [how, end] of [
  ["SIGTERM", (victim) => victim.stop({ keepData: true })],
  ["kill -9", (victim) => victim.kill()],
]) {
  test(`what is revoked stays so after ${how}`, throngOnly, async () => {
    const options = { "session.token_expiry_sec": 3_600, "session.refresh_token_expiry_sec": 7_200 };
    const first = await startServer({ options });
    const players = {};
    for (const what of ["banned", "deleted", "logged out", "untouched"]) {
      const { session } = await newPlayer(first);
      players[what] = { session, long: await longToken(first, session) };
    }
    await ban(first, players.banned.session);
    const { token } = players.deleted.session;
    assert.equal((await http(first, "DELETE", "/v2/account", { headers: bearer(token) })).status, 200);
    const { session } = players["logged out"];
    assert.equal((await logOut(first, session)).status, 200);
    // One that was given away by a script is a login of its own.
    const long = players["logged out"].long;
    assert.equal((await logOut(first, { token: long, refresh_token: "" })).status, 200);
    await end(first);
    const second = await startServer({ options, dataDir: first.dataDir });
    try {
      for (const what of ["banned", "deleted", "logged out"]) {
        await isDead(second, players[what].session.token, what);
        await isDead(second, players[what].long, `${what}, with a long token`);
        await makesNoSession(second, players[what].session.refresh_token, what);
      }
      for (const token of [players.untouched.session.token, players.untouched.long]) {
        assert.equal((await account(second, token)).status, 200);
      }
      const query = "SELECT key FROM storage WHERE collection = 'dead'";
      assert.deepEqual(JSON.parse(await rpc(second, "e2e_sql", { query })), { rows: 0 });
    } finally {
      await second.stop();
    }
  });
}

test("nothing is left of an account that was deleted amid its own writes", throngOnly, async () => {
  const ROUNDS = 40;
  let written = 0;
  const round = async () => {
    const { session } = await newPlayer(server);
    const headers = bearer(session);
    const byClient = async (key) => {
      const object = { collection: "e2e", key: `client${key}`, value: "{}" };
      return http(server, "PUT", "/v2/storage", { headers, body: json({ objects: [object] }) });
    };
    const byScript = async (key) => {
      const body = json({ key: `script${key}`, value: {} });
      return http(server, "POST", "/v2/rpc/e2e_storage?unwrap", { headers, body });
    };
    const writes = [0, 1, 2, 3].flatMap((key) => [byClient(key), byScript(key)]);
    await Promise.race(writes); // Amid them, not before: one is written, the others are on their way.
    const gone = http(server, "DELETE", "/v2/account", { headers });
    const later = [4, 5, 6, 7].flatMap((key) => [byClient(key), byScript(key)]);
    assert.equal((await gone).status, 200);
    const answers = await Promise.all([...writes, ...later]);
    written += answers.filter(({ status }) => status === 200).length;
    await isDead(server, session.token, "deleted");
  };
  await besideNeighbour(server, () => inParallel(ROUNDS, 4, round), { kinds: ["rpc", "authenticate"] });
  // Else no write came before a deletion, and nothing was at stake.
  assert.ok(written > 0);
  const query = "SELECT key FROM storage WHERE collection = 'e2e'";
  assert.deepEqual(JSON.parse(await rpc(server, "e2e_sql", { query })), { rows: 0 });
});

/** The client's address as a script sees it, for a request with these header lines. */
async function addressWith(on, lines) {
  const socket = await on.rawConnection();
  const head = lines.map((line) => `${line}\r\n`).join("");
  const path = `/v2/rpc/sessions_client_ip?http_key=${on.httpKey}&unwrap`;
  socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${head}\r\n`);
  const chunks = [];
  socket.on("data", (chunk) => chunks.push(chunk));
  await within(once(socket, "end"), CASE_MS_MAX, () => "no answer");
  socket.destroy();
  const [answerHead, body] = Buffer.concat(chunks).toString().split("\r\n\r\n");
  assert.match(answerHead, /^HTTP\/1.1 200/, body);
  return body;
}

const FORGED = "X-Forwarded-For: 203.0.113.66";

test("a forged address is not believed", throngOnly, async () => {
  assert.equal(await addressWith(server, []), "127.0.0.1");
  for (const lines of [[FORGED], [FORGED, FORGED], ["x-forwarded-for: 203.0.113.66, 127.0.0.1"]]) {
    assert.equal(await addressWith(server, lines), "127.0.0.1", json(lines));
  }
  // It may also be a proxy that nobody has told the server of: said once, however often it comes.
  const said = server.log.filter((line) => line.includes("socket.proxy_count is 0"));
  assert.equal(said.length, 1, server.logTail());
  assert.ok((await server.counters()).of("forwarded_ignored") >= 3);
});

test("of forwarded addresses those are believed that trusted proxies wrote", throngOnly, async () => {
  const behind = await startVictim({ options: { "socket.proxy_count": 2 } });
  try {
    const [client, proxy] = ["198.51.100.7", "192.0.2.1"];
    for (const lines of [
      [`X-Forwarded-For: ${client}, ${proxy}`],
      [FORGED, `X-Forwarded-For: ${client}, ${proxy}`],
      [FORGED, `X-Forwarded-For: ${client}`, `X-Forwarded-For: ${proxy}`],
      [`${FORGED}, ${client}, ${proxy}`],
    ]) {
      assert.equal(await addressWith(behind, lines), client, json(lines));
    }
  } finally {
    await behind.stop();
  }
});

test("what one call cuts off or caches is bounded, and makes nobody wait", throngOnly, async () => {
  const { result } = await besideNeighbour(server, async () => {
    const ask = async (id, payload) => JSON.parse(await rpc(server, id, payload));
    return {
      disconnects: await inParallel(8, 2, () => ask("sessions_disconnects", { count: 100_000 })),
      cache: await inParallel(8, 2, () => ask("sessions_cache", { count: 1_000, bytes: 1_000_000 })),
    };
  });
  for (const { done, why } of result.disconnects) {
    assert.equal(done, 16_384);
    assert.match(why, /one call may disconnect/);
  }
  for (const { done, why } of result.cache) {
    assert.equal(done, 16);
    assert.match(why, /bytes in one call/);
  }
  const counters = await server.counters();
  assert.equal(counters.of("cut_offs_refused"), 8);
  assert.equal(counters.of("localcache_refused"), 8);
});
