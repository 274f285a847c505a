/**
 * Calls and matches that wait, for other servers and for each other: nobody else is the slower for it, every callback
 * can reach every match, a circle ends, and so does a wait that nobody ends.
 *
 * What a script may ask of other servers is in http.test.mjs.
 */
import { after, before, describe, test } from "node:test";
import assert from "node:assert/strict";
import { startServer, throngOnly } from "./server.mjs";
import { bearer, http, newPlayer, newSocketPlayer, openSocket, textOf, unique, until } from "./client.mjs";
import { OPEN, Target } from "./target.mjs";

/** How long the other server takes for its answer. */
const LATE_MS = 5_000;
/** Calls before, and at least so many while others wait. */
const CALLS = 200;

/** Two callers, so that two calls that kept theirs would keep everybody. */
const OPTIONS = {
  ...OPEN,
  "engine.workers": 2,
  "engine.rooms": 2,
  // One user makes them until enough are on each room.
  "match.matches_per_user_max": 10_000,
  "runtime.js_entrypoint": "waiting.js",
  shutdown_grace_sec: 2,
};

/** The same match in each language; the language's functions end in `ending`. */
const LANGUAGES = {
  Lua: { module: "waiting_match", ending: "" },
  JavaScript: { module: "waiting_match_js", ending: "_js" },
};
const MATCHES = Object.values(LANGUAGES).map(({ module }) => module);

/** Times of calls one behind the other, milliseconds, for as long as `goesOn`. */
async function timed(call, goesOn) {
  const times = [];
  while (goesOn(times.length)) {
    const began = performance.now();
    await call(times.length);
    times.push(performance.now() - began);
  }
  return times;
}

const p99 = (times) => times.toSorted((a, b) => a - b)[Math.ceil(times.length * 0.99) - 1];

describe("who waits", throngOnly, () => {
  let server;
  let target;
  let admin;
  before(async () => {
    target = await Target.start();
    server = await startServer({ options: OPTIONS });
    admin = await newPlayer(server);
  });
  after(async () => {
    await server?.stop();
    await target?.stop();
  });

  const rpc = async (id, input) => (await admin.client.rpc(admin.session, id, input)).payload;
  /** Makes and signals matches by functions in the one language or the other. */
  const calls = (ending) => {
    const create = async (module, wishes = {}) =>
      (await rpc(`waiting_create${ending}`, { ...wishes, module })).match_id;
    const signal = async (id, data) => (await rpc(`waiting_signal${ending}`, { match_id: id, data })).answer;
    return { create, signal, seen: (id) => signal(id, { seen: true }) };
  };

  for (const [language, { module, ending }] of Object.entries(LANGUAGES)) {
    const { create, signal, seen } = calls(ending);

    test(`${language}: two calls that wait for five seconds make no other call slower`, async () => {
      const slow = await newPlayer(server);
      const other = await newPlayer(server);
      const echo = async (number) => {
        const { payload } = await other.client.rpc(other.session, `e2e_echo${ending}`, { number });
        assert.deepEqual(payload, { number });
      };
      const quiet = p99(await timed(echo, (count) => count < CALLS));
      let waiting = 2;
      const before = target.requests.length;
      const began = performance.now();
      const calls = [1, 2].map(async (number) => {
        const asked = { url: target.url(`/late/${LATE_MS}/${number}`), timeout_ms: 3 * LATE_MS };
        const options = { headers: bearer(slow.session), body: JSON.stringify(asked) };
        const answer = await http(server, "POST", `/v2/rpc/e2e_http${ending}?unwrap`, options);
        waiting -= 1;
        assert.deepEqual([answer.status, answer.json.code, answer.json.content], [200, 200, "late"]);
        return performance.now() - began;
      });
      await until(() => target.requests.length === before + 2);
      const times = await timed(echo, () => waiting === 2);
      const took = await Promise.all(calls);
      assert.ok(Math.min(...took) >= LATE_MS, `they waited ${took} ms`);
      assert.ok(times.length >= CALLS, `only ${times.length} calls in ${LATE_MS} ms`);
      const [busy, worst] = [p99(times), Math.max(...times)];
      console.log(`${language}: p99 of others: ${quiet.toFixed(1)} ms, then ${busy.toFixed(1)} ms of ${times.length} calls`);
      assert.ok(busy < 3 * quiet + 50, `p99 was ${quiet} ms, and is ${busy} ms`);
      assert.ok(worst < LATE_MS / 4, `one call took ${worst} ms`);
    });

    test(`${language}: every callback signals and makes matches, in its own room and in another`, async () => {
      // Of four others one is in the same room, one in the other, most likely.
      const others = await Promise.all([module, module, ...MATCHES].map((of) => create(of)));
      for (const wish of [...others.map((id) => ({ signal: id })), { create: true }]) {
        const is = (text) => (wish.create ? /^[0-9a-f-]{36}\.nakama$/.test(text) : text === "says hello");
        const check = async (id, callback) => {
          await until(async () => (await seen(id)) !== "");
          const text = await seen(id);
          assert.ok(is(text), `${callback} with ${JSON.stringify(wish)}: ${text}`);
        };
        await check(await create(module, { init: wish }), "init");
        await check(await create(module, { loop: wish }), "loop");
        for (const callback of ["join_attempt", "join", "leave"]) {
          const id = await create(module, { [callback]: wish });
          const { socket, leave } = await openSocket(admin.client, admin.session);
          await socket.joinMatch(id);
          if (callback === "leave") await socket.leaveMatch(id);
          await check(id, callback);
          leave();
        }
        assert.ok(is(await signal(await create(module), { act: wish })));
      }
    });

    test(`${language}: a match that waits for itself is told that it is busy`, async () => {
      const [one, two, three] = [await create(module), await create(module), await create(LANGUAGES.Lua.module)];
      const busy = /match busy/;
      assert.match(await signal(one, { act: { signal: one } }), busy);
      const circle = (...ids) => ids.reduceRight((data, id) => ({ act: { signal: id, data } }), { say: "x" });
      assert.match(await signal(one, circle(two, one)), busy);
      assert.match(await signal(one, circle(two, three, one)), busy);
      assert.equal(await signal(one, circle(two, three)), "says x");
    });

    test(`${language}: a match asks another server in its loop, and its players hear the answer`, async () => {
      const player = await newSocketPlayer(server);
      const id = await create(module);
      const { match_id: joined } = await player.socket.joinMatch(id);
      assert.equal(joined, id);
      const name = unique();
      await signal(id, { loop: { ask: target.url(`/hold/${name}`) } });
      await target.holds(1);
      // Its room goes on meanwhile, and so does its server.
      const others = await Promise.all(Array.from({ length: 4 }, () => create(module)));
      for (const other of others) assert.equal(await signal(other, { say: name }), `says ${name}`);
      target.releaseAll();
      assert.equal(textOf(await player.next("match_data")), "released");
      player.leave();
    });
  }

  test("the last callback waits, too", async () => {
    const { create, seen } = calls("");
    const other = await create(LANGUAGES.Lua.module);
    const says = (text) => ({ terminate: { signal: other, data: { say: text } } });
    for (const [language, { module }] of Object.entries(LANGUAGES)) {
      assert.equal(await seen(await create(module, says(`goodbye in ${language}`))), "");
    }
    await server.stop();
    for (const language of Object.keys(LANGUAGES)) {
      const said = `terminated after: says goodbye in ${language}`;
      assert.ok(server.log.some((line) => line.includes(said)), server.logTail());
    }
  });
});

test("who never comes back is cancelled, and its request with it", throngOnly, async () => {
  const waitMax = { ...OPTIONS, "runtime.call_wait_max_ms": 1_000 };
  const [target, server] = [await Target.start(), await startServer({ options: waitMax })];
  try {
    const { client, session } = await newPlayer(server);
    const never = { url: target.url("/hold/call"), timeout_ms: 30_000 };
    const body = JSON.stringify(never);
    for (const { module, ending } of Object.values(LANGUAGES)) {
      const options = { headers: bearer(session), body };
      const answer = await http(server, "POST", `/v2/rpc/e2e_http${ending}?unwrap`, options);
      assert.deepEqual([answer.status, answer.json.code], [504, 4]);
      assert.match(answer.json.message, /waited for 1000 ms, at last for another server \(runtime\.call_wait_max_ms\)/);
      await target.holds(0);
      const player = await newSocketPlayer(server);
      const made = await client.rpc(session, "waiting_create", { module });
      const { match_id: id } = made.payload;
      await player.socket.joinMatch(id);
      const wish = { match_id: id, data: { loop: { ask: target.url("/hold/match"), timeout_ms: 30_000 } } };
      await client.rpc(session, "waiting_signal", wish);
      await target.holds(1);
      await player.next("disconnect");
      await target.holds(0);
    }
    const said = "match_loop waited for 1000 ms, at last for another server (runtime.call_wait_max_ms)";
    const count = () => server.log.filter((line) => line.includes(said)).length;
    await until(() => count() === MATCHES.length);
  } finally {
    await server.stop();
    await target.stop();
  }
});
