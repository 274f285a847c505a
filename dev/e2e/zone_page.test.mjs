/**
 * The page to fly in the zone, served by the server itself: its files and their heads, and a ship among bots in a
 * headless Chromium (left out where there is none), with pictures of several moments of a battle. THRONG_PICTURES names a
 * folder to keep them in. Nothing waits for a time: a test goes on when what it expects is there.
 */
import { after, before, describe, test } from "node:test";
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { startVictim } from "./attack/rig.mjs";
import { throngOnly } from "./server.mjs";
import { http, until } from "./client.mjs";
import { chromium, openPage } from "./browser.mjs";

const BOTS = 150;
/** A battle is looked at for 7 s where time goes at its full pace; a slow machine draws few pictures in a second. */
const BATTLE_MS = 60_000;
const OPTIONS = { "world.enabled": true, "world.side_m": 256, "world.bots": BOTS, "world.page": true };
const withBrowser = chromium ? throngOnly : { skip: "no chromium: the page is not looked at" };

let server;
before(async () => {
  if (!throngOnly.skip) server = await startVictim({ options: OPTIONS });
});
after(() => server?.stop());

describe("the page's files", throngOnly, () => {
  for (const [path, type, text] of [
    ["/zone/", "text/html; charset=utf-8", "<canvas"],
    ["/zone/page.css", "text/css; charset=utf-8", "canvas {"],
    ["/zone/client.mjs", "text/javascript; charset=utf-8", "class Player"],
    ["/zone/page.mjs", "text/javascript; charset=utf-8", "requestAnimationFrame"],
    ["/zone/zone.mjs", "text/javascript; charset=utf-8", "class View"],
  ]) {
    test(path, async () => {
      const answer = await http(server, "GET", path);
      assert.equal(answer.status, 200);
      assert.equal(answer.headers.get("content-type"), type);
      assert.match(answer.headers.get("content-security-policy"), /^default-src 'none'; script-src 'self';/);
      assert.equal(answer.headers.get("x-content-type-options"), "nosniff");
      assert.ok(answer.text.includes(text));
    });
  }

  test("nothing else is", async () => {
    for (const path of ["/zone", "/zone/index.html", "/zone/../Cargo.toml", "/zone/%2e%2e/Cargo.toml", "/zone//page.mjs"]) {
      assert.equal((await http(server, "GET", path)).status, 404, path);
    }
    assert.equal((await http(server, "POST", "/zone/")).status, 404);
  });

  test("it is off unless it is asked for", async () => {
    const plain = await startVictim({ options: { "world.enabled": true } });
    assert.equal((await http(plain, "GET", "/zone/")).status, 404);
    await plain.stop();
  });
});

/** What the page knows, and what it has drawn: colours that are not the background's, by their pixels. */
const LOOK = `import("/zone/page.mjs").then(({ view, ship }) => {
  const canvas = document.getElementById("sea");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const colours = new Set();
  let lit = 0;
  for (let at = 0; at < data.length; at += 4) {
    if (Math.max(data[at], data[at + 1], data[at + 2]) < 100) continue;
    lit += 1;
    colours.add((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
  }
  const own = ship && view.known.get(ship.slot);
  const record = own?.records.get(own.newest);
  const shots = [...view.known.values()].filter((it) => (it.records.get(it.newest).pose & 2) !== 0).length;
  const told = document.getElementById("told").textContent;
  return { tick: view.tick ?? 0, seq: view.controlSeq, ships: view.known.size, record, shots, lit, colours: colours.size, told };
})`;

describe("the page in a browser", withBrowser, () => {
  test("a person pilots a ship among bots, and sees the battle", async () => {
    const page = await openPage(`http://${server.host}:${server.port}/zone/`);
    const pictures = [];
    let look;
    const see = async (name, holds) => {
      await until(async () => holds((look = await page.run(LOOK))), BATTLE_MS);
      const png = await page.picture();
      pictures.push(png);
      if (process.env.THRONG_PICTURES) await writeFile(join(process.env.THRONG_PICTURES, `zone_${name}.png`), png);
      return look;
    };
    // What is known is drawn, and told, a frame later.
    const inSight = `${BOTS + 1} ships in sight`;
    const first = await see("joined", (it) => it.record && it.lit > 0 && it.told.includes(inSight));
    assert.equal(first.ships, BOTS + 1, "all bots, and the ship itself");
    // A ship is some 70 pixels at the least, and most of them are in the picture.
    assert.ok(first.lit > 2_000 && first.colours >= 3, `${first.lit} pixels are lit, of ${first.colours} colours`);
    await page.key("ArrowLeft", true);
    await page.key("ArrowUp", true);
    const turned = await see("turned", (it) => it.record?.pose >> 6 !== first.record.pose >> 6 && it.seq > first.seq);
    await page.key("ArrowLeft", false);
    await page.key("Space", true);
    const flown = await see("flown", (it) => it.tick > turned.tick + 40 && it.shots > 0);
    assert.notDeepEqual([flown.record.x, flown.record.y], [turned.record.x, turned.record.y], "it flies");
    // Some ships are not whole any more, which has other colours.
    await see("battle", (it) => it.tick > flown.tick + 100 && it.colours > first.colours);
    assert.equal(new Set(pictures.map((png) => png.toString("base64"))).size, pictures.length, "each picture is another");
    assert.deepEqual(page.complaints.filter((text) => !text.includes("404")), []);
    await page.close();
    const { of } = await server.counters();
    assert.ok(of("zone_players") <= 1 && of("zone_faults") === 0);
  });
});
