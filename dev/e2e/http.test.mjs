/**
 * `nk.http_request`: what scripts send and get, and that it ends with the server. Whom scripts cannot reach is in
 * attack/http_request.test.mjs.
 */
import { after, before, describe, test } from "node:test";
import assert from "node:assert/strict";
import { startVictim } from "./attack/rig.mjs";
import { startServer, throngOnly } from "./server.mjs";
import { http, newPlayer, unique } from "./client.mjs";
import { OPEN, Target } from "./target.mjs";

describe("scripts ask other servers", throngOnly, () => {
  let server;
  let target;
  before(async () => {
    target = await Target.start();
    server = await startVictim({ options: OPEN });
  });
  after(async () => {
    await server?.stop();
    await target?.stop();
  });

  const ask = async ({ client, session }, asked) => (await client.rpc(session, "e2e_http", asked)).payload;

  test("a request arrives as it was written, and so does its answer", async () => {
    const player = await newPlayer(server);
    const asked = {
      url: target.url("/echo?a=b"),
      method: "post",
      headers: { "Content-Type": "text/plain", Authorization: "Bearer key" },
      content: "héllo",
    };
    const { code, headers, content } = await ask(player, asked);
    assert.deepEqual([code, headers["Content-Type"]], [200, "application/json"]);
    const seen = JSON.parse(content);
    assert.deepEqual([seen.method, seen.url, seen.content], ["POST", "/echo?a=b", "héllo"]);
    assert.equal(seen.headers.authorization, "Bearer key");
    assert.equal(seen.headers["content-length"], "6");
    assert.equal(seen.headers.host, `127.0.0.1:${target.port}`);
    assert.equal((await ask(player, { url: target.url("/status/418") })).code, 418);
    const followed = await ask(player, { url: target.url(`/to?${encodeURIComponent("/echo?there")}`) });
    assert.equal(JSON.parse(followed.content).url, "/echo?there");
  });

  test("what cannot be asked is an error that a script can catch, with its reason", async () => {
    const player = await newPlayer(server);
    for (const [asked, wanted] of [
      [{ url: "" }, "expects URL string"],
      [{ url: target.url("/"), method: "TRACE" }, "expects method to be one of"],
      [{ url: target.url("/"), headers: { a: 1 } }, "HTTP header values must be strings"],
      [{ url: "ftp://127.0.0.1/" }, "must begin with http"],
      [{ url: target.url("/"), headers: { "X-A": "b\r\nX-B: c" } }, "line break"],
      [{ url: target.url("/"), headers: { Host: "other" } }, "made from the URL"],
      [{ url: target.url("/"), timeout_ms: 1e6 }, "fetch.timeout_max_ms"],
      [{ url: target.url("/"), insecure: true }, "fetch.insecure"],
      [{ url: "http://127.0.0.1:1/" }, "cannot connect"],
    ]) {
      const { error } = await ask(player, asked);
      assert.ok(error?.includes(wanted), `${JSON.stringify(asked)}: ${error}`);
    }
    const raised = await failureOf(player.client.rpc(player.session, "e2e_http_raw", { url: "nothing" }));
    assert.match(raised, /HTTP request error/);
  });

  test("a hook asks, too", async () => {
    const { client, session } = await newPlayer(server);
    const id = unique();
    await client.linkCustom(session, { id });
    const unlink = (url) => client.unlinkCustom(session, { id, vars: { ask: url } });
    assert.match(await failureOf(unlink(target.url("/status/403"))), /the place says no/);
    assert.ok(await unlink(target.url("/echo")));
  });

  test("a script's time is over when it said so", async () => {
    const player = await newPlayer(server);
    const { error } = await ask(player, { url: target.url(`/hold/${unique()}`), timeout_ms: 50 });
    assert.match(error, /no answer within 50 ms/);
    await target.holds(0);
  });
});

/** What the server says of a call that fails. */
async function failureOf(call) {
  const error = await call.then(
    () => assert.fail("it did not fail"),
    (error) => error,
  );
  return typeof error.json === "function" ? JSON.stringify(await error.json()) : String(error);
}

test("without fetch.enabled the function says so", throngOnly, async () => {
  const server = await startServer();
  try {
    const { client, session } = await newPlayer(server);
    const { error } = (await client.rpc(session, "e2e_http", { url: "http://127.0.0.1/" })).payload;
    assert.match(error, /fetch\.enabled/);
  } finally {
    await server.stop();
  }
});

test("a request ends with the server", throngOnly, async () => {
  const target = await Target.start();
  const server = await startServer({ options: OPEN });
  try {
    const call = http(server, "POST", `/v2/rpc/e2e_http?http_key=${server.httpKey}&unwrap`, {
      body: JSON.stringify({ url: target.url("/hold/on"), timeout_ms: 30_000 }),
    }).catch((error) => error);
    await target.holds(1);
    await server.stop();
    await call;
    await target.holds(0);
  } finally {
    await target.stop();
  }
});
