/**
 * Hooks with a struct for each call and each message of the socket, in Go and in Rust: every one that the SDK has is
 * registered (`wasm/hooks`, `wasm/hooks.rs`), every call of the server's own table is made, and every hook has to have
 * been given what was asked. A call that is added without a request here fails the test.
 * Not here: what a hook may change and refuse (`guest_plugin.test.mjs`).
 */
import { after, before, describe, test } from "node:test";
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { REPOSITORY, apiTable, binary, startServer, throngOnly } from "./server.mjs";
import { RawSocket, basic, bearer, http, newPlayer, unique, until } from "./client.mjs";
import { buildGo, buildRust, missingGo, missingRust } from "./guests.mjs";

const GUESTS = {
  go: { build: (file) => buildGo(file, join(REPOSITORY, "dev", "e2e", "wasm", "hooks")), missing: missingGo },
  rust: { build: (file) => buildRust("hooks", file), missing: missingRust },
};

/**
 * A request of each call, in the order in which they are made: method, path, body, and what the hook before it sees.
 * `key` is for those that show the server's key, `as` for those of another player than the first.
 */
const requests = ({ ann, bob, gone }) => {
  const [custom, device, email] = [unique("custom"), unique("device"), `${unique("e")}@example.com`];
  const place = { collection: "saves", key: "k" };
  const object = { ...place, value: '{"a":[]}', permission_read: 2, permission_write: 1 };
  const id = randomUUID();
  return {
    AuthenticateDevice: { key: true, ask: ["POST", "/v2/account/authenticate/device?create=true&username=n", { id: device }], sees: { account: { id: device }, create: true, username: "n" } },
    AuthenticateCustom: { key: true, ask: ["POST", "/v2/account/authenticate/custom", { id: custom, vars: { a: "b" } }], sees: { account: { id: custom, vars: { a: "b" } } } },
    AuthenticateEmail: { key: true, ask: ["POST", "/v2/account/authenticate/email", { email, password: "12345678" }], sees: { account: { email, password: "12345678" } } },
    SessionRefresh: { key: true, ask: ["POST", "/v2/account/session/refresh", { token: bob.session.refresh_token }], sees: { token: bob.session.refresh_token } },
    SessionLogout: { as: gone, ask: ["POST", "/v2/session/logout", { refresh_token: gone.session.refresh_token }], sees: { refresh_token: gone.session.refresh_token } },
    GetAccount: { ask: ["GET", "/v2/account"] },
    UpdateAccount: { ask: ["PUT", "/v2/account", { display_name: "Ann", location: "" }], sees: { display_name: "Ann", location: "" } },
    LinkCustom: { ask: ["POST", "/v2/account/link/custom", { id: `${custom}-2` }], sees: { id: `${custom}-2` } },
    LinkDevice: { ask: ["POST", "/v2/account/link/device", { id: `${device}-2` }], sees: { id: `${device}-2` } },
    LinkEmail: { ask: ["POST", "/v2/account/link/email", { email: `2${email}`, password: "12345678" }], sees: { email: `2${email}`, password: "12345678" } },
    UnlinkEmail: { ask: ["POST", "/v2/account/unlink/email", { email: `2${email}` }], sees: { email: `2${email}` } },
    UnlinkDevice: { ask: ["POST", "/v2/account/unlink/device", { id: `${device}-2` }], sees: { id: `${device}-2` } },
    UnlinkCustom: { ask: ["POST", "/v2/account/unlink/custom", { id: `${custom}-2` }], sees: { id: `${custom}-2` } },
    GetUsers: { ask: ["GET", `/v2/user?ids=${bob.session.user_id}&usernames=nobody`], sees: { ids: [bob.session.user_id], usernames: ["nobody"] } },
    AddFriends: { ask: ["POST", `/v2/friend?ids=${bob.session.user_id}`], sees: { ids: [bob.session.user_id] } },
    ListFriends: { ask: ["GET", "/v2/friend?limit=5&state=1"], sees: { limit: 5, state: 1 } },
    ListFriendsOfFriends: { ask: ["GET", "/v2/friend/friends?limit=5"], sees: { limit: 5 } },
    DeleteFriends: { ask: ["DELETE", `/v2/friend?ids=${bob.session.user_id}`], sees: { ids: [bob.session.user_id] } },
    BlockFriends: { ask: ["POST", `/v2/friend/block?ids=${bob.session.user_id}`], sees: { ids: [bob.session.user_id] } },
    ListNotifications: { ask: ["GET", "/v2/notification?limit=5"], sees: { limit: 5 } },
    DeleteNotifications: { ask: ["DELETE", `/v2/notification?ids=${id}`], sees: { ids: [id] } },
    Event: { ask: ["POST", "/v2/event", { name: "n", properties: { a: "b" }, timestamp: "2026-01-02T03:04:05.5Z" }], sees: { name: "n", properties: { a: "b" }, timestamp: "2026-01-02T03:04:05.5Z" } },
    WriteStorageObjects: { ask: ["PUT", "/v2/storage", { objects: [object] }], sees: { objects: [object] } },
    ReadStorageObjects: { ask: ["POST", "/v2/storage", { object_ids: [{ ...place, user_id: ann.session.user_id }] }], sees: { object_ids: [{ ...place, user_id: ann.session.user_id }] } },
    ListStorageObjects: { ask: ["GET", "/v2/storage/saves?limit=3"], sees: { collection: "saves", limit: 3 } },
    DeleteStorageObjects: { ask: ["PUT", "/v2/storage/delete", { object_ids: [place] }], sees: { object_ids: [place] } },
    ListMatches: { ask: ["GET", "/v2/match?limit=5&authoritative=false&min_size=0"], sees: { limit: 5, authoritative: false, min_size: 0 } },
    DeleteAccount: { as: bob, ask: ["DELETE", "/v2/account"] },
  };
};

/** A message of each kind that clients may send, in order; `id` is the match. */
const messages = ({ bob }, id) => ({
  match_create: {},
  match_join: { match_id: id, metadata: { a: "b" } },
  match_data_send: { match_id: id, op_code: "3", data: "aGk=" },
  match_leave: { match_id: id },
  status_follow: { user_ids: [bob.session.user_id] },
  status_unfollow: { user_ids: [bob.session.user_id] },
  status_update: { status: "here" },
  ping: {},
  pong: {},
});

/** What the server says of a folder of modules before it starts. */
function checked(folder) {
  const { stdout, stderr } = spawnSync(binary(), ["check", "--data_dir", folder, "--runtime.path", folder], { encoding: "utf8" });
  return stdout + stderr;
}

const camel = (name) => name.replace(/(^|_)([a-z])/g, (_, __, letter) => letter.toUpperCase());

/** What stands in the line behind its first words: values of JSON, one after the other. */
function told(line, words) {
  const text = JSON.parse(line).message ?? JSON.parse(line).fields?.message;
  const rest = text.slice(text.indexOf(words) + words.length).trim();
  const values = [];
  let [start, depth, isText] = [0, 0, false];
  for (let at = 0; at < rest.length; at++) {
    if (isText) {
      if (rest[at] === "\\") at++;
      else isText = rest[at] !== '"';
    } else if (rest[at] === '"') isText = true;
    else if ("{[".includes(rest[at])) depth++;
    else if ("}]".includes(rest[at]) && --depth === 0) {
      values.push(JSON.parse(rest.slice(start, at + 1)));
      start = at + 1;
    }
  }
  return values;
}

for (const [language, { build, missing }] of Object.entries(GUESTS)) {
  const skip = throngOnly.skip ?? missing();
  describe(language, skip ? { skip } : {}, () => {
    let server, folder, lines, table, players, unbuilt;
    before(async () => {
      if (skip) return;
      folder = mkdtempSync(join(tmpdir(), "throng-guest-hooks-"));
      build(join(folder, "hooks.wasm"));
      server = await startServer({ options: { "runtime.path": folder } });
      unbuilt = checked(folder).match(/(?<=the before-hook of rt:)\w+(?= is registered, but)/g);
      lines = server.heard(/before |after |heard /);
      table = apiTable();
      players = { ann: await newPlayer(server), bob: await newPlayer(server), gone: await newPlayer(server) };
      // Lines come late: those of the players are none of the tests'.
      await until(() => lines.filter((line) => /"after Authenticate\w+[ "]/.test(line)).length >= 3);
    });
    after(async () => {
      await server?.stop();
      if (folder) rmSync(folder, { recursive: true });
    });
    /** The last line with these words at its beginning. */
    const heard = async (words) => {
      const found = () => lines.findLast((line) => new RegExp(`"${words}[ "]`).test(line));
      await until(() => found());
      return told(found(), words);
    };

    test("every call of the table has hooks that are run, and see it", async () => {
      const all = requests(players);
      const built = table.calls.filter(({ doc }) => doc);
      assert.deepEqual(Object.keys(all).sort(), built.map(({ name }) => name).sort());
      for (const [name, { key, as, ask, sees }] of Object.entries(all)) {
        const [method, path, body] = ask;
        const { request, response } = built.find((call) => call.name === name);
        lines.length = 0;
        const headers = key ? basic(server.serverKey) : bearer((as ?? players.ann).session);
        const answer = await http(server, method, path, { headers, body: body && JSON.stringify(body) });
        assert.equal(answer.status, 200, `${name}: ${answer.text}`);
        assert.deepEqual(await heard(`before ${name}`), request ? [sees] : [], name);
        const afterwards = await heard(`after ${name}`);
        if (response) assert.deepEqual(Object.keys(afterwards.shift()).sort(), Object.keys(answer.json).sort(), name);
        // Nakama's Go gives these two the answer alone.
        const isWithout = language === "go" && /^ListFriends/.test(name);
        assert.deepEqual(afterwards, request && !isWithout ? [sees] : [], name);
      }
    });

    test("every message of the socket that is built has hooks that are run, and see it", async () => {
      const sent = table.realtime.filter(({ name, isFromClient }) =>
        isFromClient && !unbuilt.includes(name.replaceAll("_", "")));
      assert.deepEqual(sent.map(({ name }) => name).sort(), Object.keys(messages(players)).sort());
      const raw = await RawSocket.open(server, players.ann.session.token);
      let id = "";
      for (const name of Object.keys(messages(players))) {
        const message = messages(players, id)[name];
        lines.length = 0;
        if (["match_data_send", "pong"].includes(name)) raw.send({ [name]: message });
        else {
          const answer = await raw.request({ [name]: message });
          assert.equal(answer.error, undefined, `${name}: ${JSON.stringify(answer)}`);
          id = answer.match?.match_id ?? id;
        }
        const [seen] = await heard(`before rt:${camel(name)}`);
        const got = { ...seen[name] };
        if (got.op_code) got.op_code = String(got.op_code);
        assert.deepEqual(got, message, name);
        const afterwards = await heard(`after rt:${camel(name)}`);
        assert.ok(afterwards.some((value) => value && name in value), `${name}: ${JSON.stringify(afterwards)}`);
      }
      raw.close();
      assert.deepEqual(Object.keys((await heard("heard end"))[0]).includes("name"), true);
    });

    test("what the server does not have yet says so, method by method", { skip: language !== "go" }, async () => {
      const { client, session } = await newPlayer(server);
      const said = (await client.rpc(session, "everything", {})).payload;
      const table = JSON.parse(execFileSync(binary(), ["functions", "--json"], { encoding: "utf8" }));
      const odd = { LinkGameCenter: "link_gamecenter", UnlinkGameCenter: "unlink_gamecenter", ReadFile: "file_read" };
      const snake = (name) => odd[name] ?? name.replace(/(?!^)([A-Z])/g, "_$1").toLowerCase();
      let missing = 0;
      for (const [name, text] of Object.entries(said)) {
        if (name === "Call") continue;
        const row = table.find((row) => row.name === snake(name));
        assert.ok(row, `${name} is no function of the server`);
        assert.equal(text === `nk.${row.name} is not implemented in throng yet`, row.kind === "missing", `${name}: ${text}`);
        missing += row.kind === "missing";
      }
      assert.ok(missing > 30 && Object.keys(said).length > 90, `${missing} of ${Object.keys(said).length}`);
    });

    test("events are structs", async () => {
      lines.length = 0;
      const { ann } = players;
      const body = JSON.stringify({ name: "won", properties: { at: "chess" } });
      assert.equal((await http(server, "POST", "/v2/event", { headers: bearer(ann.session), body })).status, 200);
      const [event] = await heard("heard event");
      assert.deepEqual([event.name, event.properties, event.external], ["won", { at: "chess" }, true]);
    });
  });
}
