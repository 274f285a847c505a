/**
 * The zone through nakama-js, in both socket formats: found by listing, joined, steered, seen and left; a client that
 * stops reading, and what /metrics says. The packets are read by examples/zone/zone.mjs. Nothing here waits for a time:
 * a test goes on when what it expects has come.
 */
import { after, before, describe, test } from "node:test";
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { freePort, startVictim } from "./attack/rig.mjs";
import { binary, throngOnly } from "./server.mjs";
import { bearer, FORMATS, http, newPlayer, newSocketPlayer, openSocket, RawSocket, until } from "./client.mjs";
import { CONTROLS, PLACE, place, plain, SNAPSHOT, View, WELCOME, welcome } from "../../examples/zone/zone.mjs";

const OPTIONS = {
  "world.enabled": true,
  "world.side_m": 512,
  "world.bots": 50,
  "world.ships_per_user": 2,
  "engine.rooms": 2,
};

/** How long a split may take: the load must be seen for 60 ticks, which are slow under it. */
const SPLIT_MS_MAX = 60_000;

let server;
let zoneId;
before(async () => {
  if (throngOnly.skip) return;
  server = await startVictim({ options: OPTIONS });
  const { client, session } = await newPlayer(server);
  const query = "+label.kind:zone";
  const listed = await client.listMatches(session, 10, true, undefined, 0, undefined, query);
  assert.equal(listed.matches.length, 1);
  assert.equal(listed.matches[0].authoritative, true);
  zoneId = listed.matches[0].match_id;
});
after(() => server?.stop());

const hasOp = (op) => (data) => Number(data.op_code) === op;

/**
 * Runs a scenario of `throng load` against a server that it starts with the options `serve`, else against this file's.
 * Gives what it prints, its result and its page; an exit code above 0 is an error that has `code` and `stdout`.
 */
async function load(scenario, { serve }, args) {
  const folder = await mkdtemp(join(tmpdir(), "throng-zone-"));
  const out = join(folder, "out");
  const started = `${binary()} serve --socket.port 0 --socket.grpc_port 0 --data_dir ${join(folder, "data")} ${serve}`;
  const to = serve
    ? ["--server", started]
    : ["--target", `http://${server.host}:${server.port}`, "--server-key", server.serverKey];
  try {
    const all = ["load", scenario, ...to, "--out", out, ...args];
    const { stdout } = await promisify(execFile)(binary(), all, { timeout: 60_000 });
    const result = JSON.parse(await readFile(join(out, "result.json"), "utf8"));
    return { stdout, result, page: await readFile(join(out, "report.html"), "utf8") };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** A player in the zone, with what it knows. */
async function pilot(format) {
  const player = await newSocketPlayer(server, { format });
  const match = await player.socket.joinMatch(zoneId);
  assert.equal(match.authoritative, true);
  const told = await player.next("match_data", hasOp(WELCOME));
  return { ...player, ship: welcome(told.data), view: new View(), seq: 0, updates: 0 };
}

/** Takes the next snapshot, acknowledges it and steers. */
async function fly(pilot, controls = []) {
  const snapshot = await pilot.next("match_data", hasOp(SNAPSHOT));
  pilot.updates += pilot.view.take(snapshot.data);
  const packet = pilot.view.controls(pilot.seq + 1, controls);
  pilot.seq += controls.length;
  await pilot.socket.sendMatchState(zoneId, CONTROLS, packet);
}

for (const format of FORMATS) {
  describe(`${format}: the zone`, throngOnly, () => {
    test("a pilot sees ships, steers its own and leaves", async () => {
      const one = await pilot(format);
      assert.deepEqual([one.ship.tickRateHz, one.ship.bins], [20, 8]);
      await fly(one);
      while (!one.view.known.has(one.ship.slot)) await fly(one);
      const before = one.view.at(one.ship.slot);
      assert.equal(plain(before).health, 15);
      // To the left for a while, and ahead.
      while (one.view.controlSeq < 12) await fly(one, [{ turn: 16, thrust: 3 }]);
      const now = one.view.at(one.ship.slot);
      assert.notEqual(now.pose >> 6, before.pose >> 6, "it has turned");
      assert.notDeepEqual([now.vx, now.vy], [0, 0], "it flies");
      assert.ok(one.view.known.size > 10, `${one.view.known.size} ships are in sight`);
      assert.ok(one.updates > 100, `${one.updates} updates`);
      for (const slot of one.view.known.keys()) {
        const { x, y } = plain(one.view.at(slot));
        assert.ok(x >= -8 && x < 520 && y >= -8 && y < 520, `${slot} is at ${x}, ${y}`);
      }
      const two = await pilot(format);
      while (!two.view.known.has(one.ship.slot)) await fly(two);
      await one.socket.leaveMatch(zoneId);
      while (two.view.known.has(one.ship.slot)) await fly(two);
      assert.equal(two.on.left((event) => event.name === "match_presence").length, 0);
      one.leave();
      two.leave();
    });

    test("who may not join is told why", async () => {
      const { client, session, socket, leave } = await pilot(format);
      // Who has left keeps a slot for a while.
      await socket.leaveMatch(zoneId);
      await socket.joinMatch(zoneId);
      const other = await openSocket(client, session, { format });
      const error = await other.socket.joinMatch(zoneId).catch((error) => error);
      assert.match(error.message, /world\.ships_per_user/);
      assert.equal(Number(error.code), 5);
      other.leave();
      leave();
    });
  });
}

describe("the line before a full zone", throngOnly, () => {
  for (const format of FORMATS) {
    test(`${format}: who waits is told its place, moves up, and is let in`, async () => {
      const full = await startVictim({
        options: { "world.enabled": true, "world.players_max": 1, "world.waiting_max": 2 },
      });
      const { client, session } = await newPlayer(full);
      const query = "+label.kind:zone";
      const [{ match_id }] = (await client.listMatches(session, 1, true, undefined, 0, undefined, query)).matches;
      const come = async () => {
        const player = await newSocketPlayer(full, { format });
        const match = await player.socket.joinMatch(match_id);
        assert.equal(match.authoritative, true);
        return player;
      };
      const placeOf = async (player) => place((await player.next("match_data", hasOp(PLACE))).data);
      const inside = await come();
      await inside.next("match_data", hasOp(WELCOME));
      const first = await come();
      assert.deepEqual(await placeOf(first), { place: 1, waiting: 1 });
      const second = await come();
      assert.deepEqual(await placeOf(second), { place: 2, waiting: 2 });
      const third = await newSocketPlayer(full, { format });
      const refused = await third.socket.joinMatch(match_id).catch((error) => error);
      assert.match(refused.message, /world\.waiting_max/);
      inside.leave();
      const told = await first.next("match_data", hasOp(WELCOME));
      assert.equal(welcome(told.data).tickRateHz, 20);
      await first.next("match_data", hasOp(SNAPSHOT));
      assert.deepEqual(await placeOf(second), { place: 1, waiting: 1 });
      // Out of the line with the socket, and the next one takes the place.
      second.leave();
      const waiting = async () => (await fetch(`http://127.0.0.1:${full.metricsPort}/metrics`)).text();
      await until(async () => /zone_waiting\S* 0$/m.test(await waiting()));
      await third.socket.joinMatch(match_id);
      assert.deepEqual(await placeOf(third), { place: 1, waiting: 1 });
      await first.socket.leaveMatch(match_id);
      await third.next("match_data", hasOp(WELCOME));
      first.leave();
      third.leave();
      await full.stop();
    });
  }
});

describe("the map of cells", throngOnly, () => {
  test("a zone that is too much for a room is split by what it costs, and the map shows it", async () => {
    // So many ships that a tick takes a room longer than it may, on any machine.
    const options = { "world.enabled": true, "world.bots": 60_000, "world.tick_rate_hz": 60, "engine.rooms": 2 };
    const crowded = await startVictim({ options });
    const map = async () => (await fetch(`http://127.0.0.1:${crowded.metricsPort}/zone`)).text();
    let page = await map();
    for (const end = Date.now() + SPLIT_MS_MAX; !/ 2 cells /.test(page) && Date.now() < end; page = await map()) {
      // Until it is seen.
    }
    await crowded.stop();
    assert.match(page, /tick \d+ · 2 cells · 60000 ships · 4096 m/);
    const cells = [...page.matchAll(/<rect x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)"/g)];
    const areas = cells.map(([, , , width, height]) => width * height);
    assert.deepEqual([cells.length, areas[0] + areas[1]], [2, 720 * 720], "the two tile the world");
    assert.match(page, /room 0, \d+ ships/);
    assert.match(page, /room 1, \d+ ships/);
  });
});

describe("a zone of several rooms under load", throngOnly, () => {
  test("a fixed partition has an equal cell for each room, and throng load tells what they cost", async () => {
    const world = { enabled: true, side_m: 512, partition: "static", ships_per_address: 0 };
    const options = Object.entries(world).map(([name, value]) => `--world.${name} ${value}`);
    const serve = `--engine.rooms 4 --metrics.prometheus_port ${await freePort()} ${options.join(" ")}`;
    const args = ["--players", "40", "--set", "fleet=fast", "--warmup", "2s", "--duration", "6s"];
    const { stdout, result, page } = await load("zone", { serve }, args);
    assert.match(stdout, /^application messages: [\d,]+ per second, [\d,]+ per CPU-second of the server$/m);
    assert.deepEqual(result.errors, []);
    const { different, unseen, lingering, server_cores, server } = result.zone;
    assert.deepEqual([different, unseen, lingering], [0, 0, 0]);
    assert.ok(server_cores >= 1);
    assert.deepEqual([server.cells, server.merges, server.faults], [[4, 4], 0, 0]);
    assert.ok(server.hand_overs > 0, "ships cross borders");
    const maps = result.series.filter((second) => second.stage === "counted").map(({ zone }) => zone);
    const quarter = [[0, 0, 4, 4], [0, 4, 4, 8], [4, 0, 8, 4], [4, 4, 8, 8]];
    for (const { bins, map } of maps) {
      assert.equal(bins, 8);
      assert.deepEqual(map.map(({ area }) => area).sort(), quarter);
      assert.equal(new Set(map.map(({ room }) => room)).size, 4);
    }
    assert.ok(page.includes("Where the load is") && page.includes("Load of rooms"));
  });
});

describe("a zone with datagrams under load", throngOnly, () => {
  const BY_DATAGRAM = ["--set", "transport=datagrams"];

  test("throng load flies pilots by UDP, who check what they are told as those of sockets do", async () => {
    const serve =
      "--engine.cores 2 --datagram.enabled true --datagram.port 0 --world.enabled true --world.side_m 512";
    const args = ["--players", "20", "--set", "fleet=crowd", ...BY_DATAGRAM, "--warmup", "1s", "--duration", "4s"];
    args.push("--expect", "datagrams_lost < 10%");
    const { stdout, result, page } = await load("zone", { serve }, args);
    assert.match(stdout, /carried by: datagrams \(UDP\): [\d,]+ of [\d,]+ snapshots; \d+ of [\d,]+ datagrams were lost/);
    assert.ok(page.includes("carried by"));
    assert.deepEqual(result.errors, []);
    const { snapshots, by_datagram, datagrams_lost, same, different } = result.zone;
    assert.ok(by_datagram > 500 && by_datagram === snapshots, `${by_datagram} of ${snapshots} by datagram`);
    assert.ok(datagrams_lost < by_datagram / 10, `${datagrams_lost} lost`);
    assert.ok(same > 100 && different === 0, `${same} compared, ${different} different`);
    const steer = result.ops.find((op) => op.name === "steer");
    assert.ok(steer.done > 500 && steer.failed === 0, `${steer.done} controls are followed`);
  });

  test("a server without datagrams refuses them by name, and the run says so", async () => {
    const args = ["--players", "2", "--ramp", "1s", "--warmup", "1s", "--duration", "1s", ...BY_DATAGRAM];
    const failed = await load("zone", {}, args).catch((error) => error);
    assert.ok(failed.code > 0, failed.stdout);
    assert.match(failed.stdout, /RPC function not found/);
  });
});

describe("the zone", throngOnly, () => {
  test("a client that acknowledges nothing is sent little, and holds up nobody", async () => {
    const [silent, quick] = [await pilot("json"), await pilot("json")];
    // The zone may have stood for long.
    await fly(quick);
    const from = quick.view.tick;
    while (quick.view.tick < from + 100) await fly(quick);
    const first = (await silent.next("match_data", hasOp(SNAPSHOT))).data;
    const view = new View();
    view.take(first);
    const passed = quick.view.tick - view.tick;
    const came = 1 + silent.on.left(({ value }) => Number(value?.op_code) === SNAPSHOT).length;
    assert.ok(came * 4 < passed && passed > 50, `${came} snapshots in ${passed} ticks`);
    silent.leave();
    quick.leave();
  });

  test("what is no packet costs nobody", async () => {
    const { session } = await newPlayer(server);
    const raw = await RawSocket.open(server, session.token);
    const joined = await raw.request({ match_join: { match_id: zoneId } });
    assert.equal(joined.match.match_id, zoneId);
    for (const data of ["", "AA==", "AgAAAAAAAAAA/w==", "AwEU"]) {
      raw.send({ match_data_send: { match_id: zoneId, op_code: "2", data } });
    }
    const stat = async (name) => (await server.counters()).of(name);
    await until(async () => (await stat("zone_inputs_refused")) >= 4);
    assert.equal(await stat("zone_faults"), 0);
    assert.ok((await stat("zone_ticks")) > 0 && (await stat("zone_cells")) >= 1);
    raw.close();
    await until(async () => (await stat("zone_players")) === 0);
  });

  test("throng load flies pilots that check what they are told", async () => {
    const args = ["--players", "12", "--set", "fleet=crowd", "--warmup", "1s", "--duration", "4s"];
    const { stdout, result, page } = await load("zone", {}, args);
    assert.match(stdout, /^application messages: [\d,]+ per second, the server's CPU was not measured$/m);
    assert.match(stdout, /\(each\s+the\s+update\s+of\s+one\s+ship/);
    assert.ok(page.includes("Application messages") && page.includes("View error"));
    assert.deepEqual(result.errors, []);
    const { updates, snapshots, same, different, in_sight, tick_rate_hz, view_error } = result.zone;
    assert.equal(tick_rate_hz, 20);
    assert.equal(different, 0);
    assert.ok(same > 100 && view_error.count >= same, `${same} of ${view_error.count} samples are compared`);
    assert.ok(snapshots > 100 && updates > snapshots, `${updates} updates in ${snapshots} snapshots`);
    assert.ok(in_sight > 12 && in_sight < 70, `${in_sight} ships in sight`);
    const steer = result.ops.find((op) => op.name === "steer");
    assert.ok(steer.done > 100 && steer.failed === 0, `${steer.done} controls are followed`);
    const seconds = result.series.filter((second) => second.zone);
    assert.ok(seconds.length > 2 && seconds.every(({ zone }) => zone.tau_permille <= 1000));
  });

  test("the match is listed with its size", async () => {
    const one = await pilot("json");
    const { session } = await newPlayer(server);
    const listed = await http(server, "GET", "/v2/match?authoritative=true&min_size=1", {
      headers: bearer(session),
    });
    assert.deepEqual(listed.json.matches.map(({ match_id, size }) => [match_id, size]), [[zoneId, 1]]);
    one.leave();
  });
});
