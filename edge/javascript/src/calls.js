// The prelude's part for a VM for calls: its seal, RPC functions, hooks and events.

(function (shared, entry) {
  'use strict';

  const { Failed, context, defineProperty, freeze, getOwnPropertyDescriptor, logger, nk, ownKeys } = shared;
  const { preventExtensions, registry } = shared;

  function assignable(prototype, member) {
    const first = prototype[member];
    defineProperty(prototype, member, {
      get: () => first,
      set(value) {
        defineProperty(this, member, { value, writable: true, enumerable: false, configurable: true });
      },
    });
  }

  // Ends the start: what one call does to globals no other call sees. As Nakama, and beyond it: names cannot
  // be given to other things, and none can be added. Not in a match: its VM is nobody else's, and every frozen
  // object costs memory, a third of what a small match holds.
  entry.seal = () => {
    // An assignment to a member that a frozen prototype has is refused, and every error gets a message.
    for (const key of ownKeys(globalThis)) {
      const { value } = getOwnPropertyDescriptor(globalThis, key);
      if (typeof value === 'function' && (value === Failed || Object.getPrototypeOf(value) === Failed)) {
        assignable(value.prototype, 'message');
        assignable(value.prototype, 'name');
      }
    }
    for (const key of ownKeys(globalThis)) {
      const { value } = getOwnPropertyDescriptor(globalThis, key);
      if (value === null || (typeof value !== 'object' && typeof value !== 'function')) continue;
      if (value !== globalThis) freeze(value);
      if (typeof value === 'function') {
        defineProperty(globalThis, key, { writable: false, configurable: false });
        if (value.prototype) freeze(value.prototype);
      }
      const base = Object.getPrototypeOf(value);
      if (base !== null) freeze(base);
    }
    preventExtensions(globalThis);
  };

  // RPC functions, hooks and events.

  entry.call = (kind, id, mode, user, more, first, second) => {
    const ctx = context(mode);
    ctx.headers = {};
    ctx.queryParams = {};
    if (user !== undefined) {
      const [userId, username, exp, sessionId, lang, clientIp, clientPort] = user;
      if (userId !== undefined) {
        ctx.userId = userId;
        ctx.username = username;
        ctx.vars = more === undefined ? {} : more[0];
        ctx.userSessionExp = exp;
      }
      if (sessionId !== undefined) ctx.sessionId = sessionId;
      if (lang !== undefined) ctx.lang = lang;
      if (clientIp !== undefined) ctx.clientIp = clientIp;
      if (clientPort !== undefined) ctx.clientPort = clientPort;
    }
    if (more !== undefined) [, ctx.headers, ctx.queryParams] = more;
    const fn = registry.registered[kind][id];
    return fn.call(null, ctx, logger, nk, first, second);
  };
})
