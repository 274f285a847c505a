// The prelude's part for a VM that runs `InitModule`: the initializer, and the plan by which other VMs find what was
// registered. A match's VM needs it only if something has no global name.

(function (shared, entry) {
  'use strict';

  const { CALLBACKS, Failed, FailedType, context, keys, logger, lower, native, nk, ownKeys } = shared;
  const { readOnly, refuse, registry, stringify, text } = shared;
  const { matches, registered } = registry;
  const again = [];

  function place(fn) {
    const { fileName, lineNumber } = fn;
    return fileName === undefined ? '' : `${fileName}:${lineNumber}`;
  }

  function register(kind, id, fn) {
    if (typeof fn !== 'function') throw new FailedType('expects a function');
    if (!registry.isLoading) throw new Failed('can only be called by InitModule');
    const before = registered[kind][id];
    if (before !== undefined && before !== fn) again.push([kind, id, place(before), place(fn)]);
    registered[kind][id] = fn;
  }

  function named(id) {
    if (typeof id !== 'string' || id === '') throw new FailedType('expects a non empty string');
    return lower(id);
  }

  function registerMatch(name, callbacks) {
    if (typeof name !== 'string' || name === '') throw new FailedType('expects a non empty string');
    if (callbacks === null || typeof callbacks !== 'object') throw new FailedType('expects an object');
    if (!registry.isLoading) throw new Failed('can only be called by InitModule');
    const found = {};
    for (const callback of CALLBACKS) {
      const fn = callbacks[callback];
      if (fn === undefined) throw new FailedType(`${callback} not found`);
      if (typeof fn !== 'function') throw new FailedType(`${callback} value not a valid function`);
      found[callback] = fn;
    }
    matches[name] = found;
  }

  const event = (id) => (fn) => register('event', id, fn);
  const registrations = {
    __proto__: null,
    getConfig: () => native.config(),
    registerRpc: (id, fn) => register('rpc', named(id), fn),
    registerRtBefore: (id, fn) => register('before', `rt:${named(id)}`, fn),
    registerRtAfter: (id, fn) => register('after', `rt:${named(id)}`, fn),
    registerMatch,
    registerMatchmakerMatched: event('matchmaker_matched'),
    registerTournamentEnd: event('tournament_end'),
    registerTournamentReset: event('tournament_reset'),
    registerLeaderboardReset: event('leaderboard_reset'),
    registerShutdown: event('shutdown'),
    registerPurchaseNotificationApple: event('purchase_notification_apple'),
    registerSubscriptionNotificationApple: event('subscription_notification_apple'),
    registerPurchaseNotificationGoogle: event('purchase_notification_google'),
    registerSubscriptionNotificationGoogle: event('subscription_notification_google'),
    registerEvent: event('event'),
    registerEventSessionStart: event('event_session_start'),
    registerEventSessionEnd: event('event_session_end'),
    registerZoneSpawn: event('zone_spawn'),
    registerZoneHit: event('zone_hit'),
    registerZoneScore: event('zone_score'),
    registerStorageIndex: (name) => register('event', `storage_index:${text(name)}`, refuse),
    registerStorageIndexFilter: (name, fn) => register('event', `storage_index_filter:${text(name)}`, fn),
  };

  const initializer = new Proxy(registrations, {
    ...readOnly,
    get(_, name) {
      if (typeof name !== 'string') return undefined;
      const known = registrations[name];
      if (known !== undefined) return known;
      const parts = /^register(Before|After)(.+)$/.exec(name);
      if (parts === null || !native.isHook(parts[2])) return undefined;
      return (fn) => register(lower(parts[1]), lower(parts[2]), fn);
    },
  });

  // The global name of a function, by which another VM finds it; undefined if it has none.
  function globalName(fn) {
    const { name } = fn;
    if (typeof name === 'string' && globalThis[name] === fn) return name;
    return ownKeys(globalThis).find((key) => typeof key === 'string' && globalThis[key] === fn);
  }

  entry.init = () => {
    const init = globalThis.InitModule;
    if (typeof init !== 'function') {
      throw new Failed('InitModule function not found. Function must be defined at top level.');
    }
    init.call(null, context('run_once'), logger, nk, initializer);
  };

  // What was registered: as names of global functions if all of it has some (`byName`).
  entry.plan = () => {
    let byName = true;
    const name = (fn) => {
      const found = fn === refuse ? '' : globalName(fn);
      if (found === undefined) byName = false;
      return found ?? null;
    };
    const plan = { again, locations: [], matches: {} };
    for (const kind of keys(registered)) {
      plan[kind] = {};
      for (const id of keys(registered[kind])) {
        const fn = registered[kind][id];
        plan[kind][id] = name(fn);
        if (fn !== refuse) plan.locations.push([kind === 'event' ? id : `${kind} ${id}`, place(fn)]);
      }
    }
    for (const id of keys(matches)) {
      plan.matches[id] = {};
      for (const callback of CALLBACKS) plan.matches[id][callback] = name(matches[id][callback]);
    }
    plan.byName = byName;
    return stringify(plan);
  };
})
