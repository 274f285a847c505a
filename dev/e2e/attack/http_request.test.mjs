/**
 * A script that asks whom its clients name, and clients who name what is none of theirs: the server itself, its
 * network, clouds' metadata, by name, by number, by redirect.
 */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { newPlayer } from "../client.mjs";
import { throngOnly } from "../server.mjs";
import { Target } from "../target.mjs";
import { startVictim } from "./rig.mjs";

let target;
before(async () => {
  if (!throngOnly.skip) target = await Target.start();
});
after(() => target?.stop());

const ask = async ({ client, session }, asked) => (await client.rpc(session, "e2e_http", asked)).payload;

test("whatever leads to this machine is refused", throngOnly, async () => {
  const server = await startVictim({ options: { "fetch.enabled": true, "fetch.allow": "*" } });
  try {
    const player = await newPlayer(server);
    const hosts = [
      "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "localhost", "LocalHost.", "0.0.0.0", "[::1]",
      "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "169.254.169.254", "[fd00:ec2::254]",
      "10.0.0.1", "192.168.0.1", "172.16.0.1", "100.64.0.1", "224.0.0.1",
    ];
    for (const host of hosts) {
      for (const port of [server.metricsPort, server.port, target.port]) {
        const { error } = await ask(player, { url: `http://${host}:${port}/metrics` });
        assert.ok(error?.includes("fetch.networks"), `${host}: ${error}`);
      }
    }
    for (const url of ["file:///etc/passwd", "gopher://127.0.0.1/", `http://example.com@127.0.0.1:${server.port}/`]) {
      assert.ok((await ask(player, { url })).error, url);
    }
    assert.equal(target.requests.length, 0);
    const counters = await server.counters();
    assert.equal(counters.of("fetch_refused"), 3 * hosts.length + 3);
    assert.equal(counters.of("fetch_answered"), 0);
  } finally {
    await server.stop();
  }
});

test("a server that may be asked cannot send on to one that may not", throngOnly, async () => {
  const server = await startVictim({
    options: { "fetch.enabled": true, "fetch.allow": "*", "fetch.networks": "127.0.0.1", "fetch.deny": "*:1" },
  });
  try {
    const player = await newPlayer(server);
    for (const [to, wanted] of [
      [`http://127.0.0.2:${server.metricsPort}/`, "fetch.networks"],
      [`http://[::1]:${server.metricsPort}/`, "fetch.networks"],
      ["http://169.254.169.254/latest/meta-data/", "fetch.networks"],
      ["http://127.0.0.1:1/", "fetch.deny"],
      ["file:///etc/passwd", "must begin with http"],
    ]) {
      const { error } = await ask(player, { url: target.url(`/to?${encodeURIComponent(to)}`) });
      assert.ok(error?.includes(wanted), `${to}: ${error}`);
    }
    const loop = encodeURIComponent(target.url("/to?"));
    assert.ok((await ask(player, { url: target.url(`/to?${loop}`) })).error);
  } finally {
    await server.stop();
  }
});
