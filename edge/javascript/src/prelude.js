// What every VM has before the bundle is run: built-in functions within bounds, the logger, `nk`, and entry points
// that Rust calls. What it needs of the language it takes before anybody can change it, also for the other parts:
// register.js, where `InitModule` runs, calls.js and match.js. Stack traces show none of them (they are compiled under
// the name [throng]).
//
// native: log(level, text), bind(name) → function of nk or undefined, isHook(name), isProxy(value),
// config(), dispatcher(), look() (throws if the call's time is over).
// Gives the entry points; `shared` among them is what the other parts are given.

(function (native, node, version, env) {
  'use strict';

  const { create, defineProperty, freeze, getOwnPropertyDescriptor, keys, preventExtensions } = Object;
  const { ownKeys } = Reflect;
  const { parse, stringify } = JSON;
  const text = String;
  const isArray = Array.isArray;
  const Pattern = RegExp;
  const FailedType = TypeError;
  const Failed = Error;
  const lower = (id) => id.toLowerCase();

  freeze(env);

  // What InitModule has registered: { id: function } by kind, and the callbacks of matches by name.
  const registry = {
    isLoading: true,
    registered: { rpc: create(null), before: create(null), after: create(null), event: create(null) },
    matches: create(null),
  };

  // What the engine does in one piece, without asking whether the call's time is over, is bounded here: loops
  // over arrays that have a length and no elements, and searches for long texts, which are quadratic. What the
  // engine would read again after it was checked (a length, a text) is refused or replaced if it may change.

  const LENGTH_MAX = 1 << 20;
  const SEARCH_MAX = 2 ** 30;
  const NORMALIZED_MAX = 1 << 15;
  const FailedRange = RangeError;
  const Obj = Object;
  const { apply, construct } = Reflect;
  const { getPrototypeOf } = Object;
  const { get: viewLength } = getOwnPropertyDescriptor(getPrototypeOf(Uint8Array.prototype), 'length');

  // Puts `make(original)` in the place of a method; `make` returns a method, which has no `prototype`.
  function replace(owner, name, make) {
    const original = owner[name];
    const made = make(original);
    defineProperty(made, 'name', { value: name });
    defineProperty(made, 'length', { value: original.length });
    defineProperty(owner, name, { value: made });
  }

  // The engine asks whether the time is over once in some thousand turns of a loop, whatever a turn costs: so
  // what may cost much asks by itself.
  const LOOK_ABOVE = 4096;
  function looked(size) {
    if (size > LOOK_ABOVE) native.look();
  }

  function tooLong(length) {
    throw new FailedRange(`an array of the length ${length} is too long for this: ${LENGTH_MAX} at most`);
  }

  // The length that the engine is going to see.
  function checkedLength(list) {
    if (list === null || list === undefined) return 0;
    let length = 0;
    if (isArray(list) && !native.isProxy(list)) {
      ({ length } = list);
    } else {
      for (let at = Obj(list); at !== null; at = getPrototypeOf(at)) {
        if (native.isProxy(at)) throw new FailedType('this method does not take a Proxy');
        const own = getOwnPropertyDescriptor(at, 'length');
        if (own === undefined) continue;
        if (own.get === viewLength) return 0;
        if (typeof own.value !== 'number') throw new FailedType('the length is to be a plain number');
        length = own.value;
        break;
      }
    }
    if (length > LENGTH_MAX) tooLong(length);
    looked(length);
    return length;
  }

  for (const name of [
    'copyWithin', 'every', 'fill', 'filter', 'find', 'findIndex', 'findLast', 'findLastIndex', 'forEach',
    'join', 'map', 'reduce', 'reduceRight', 'reverse', 'shift', 'slice', 'some',
    'sort', 'splice', 'toLocaleString', 'toReversed', 'toSorted', 'toSpliced', 'toString', 'unshift', 'with',
  ]) {
    replace(Array.prototype, name, (original) => ({
      method(...args) {
        checkedLength(this);
        return apply(original, this, args);
      },
    }).method);
  }
  // These compare texts, each to its end.
  for (const name of ['includes', 'indexOf', 'lastIndexOf']) {
    replace(Array.prototype, name, (original) => ({
      method(...args) {
        const length = checkedLength(this);
        if (typeof args[0] === 'string' && args[0].length > 64) checkSearch(args[0].length * length);
        return apply(original, this, args);
      },
    }).method);
  }
  replace(Array.prototype, 'flatMap', (original) => ({
    method(callback, self) {
      checkedLength(this);
      if (typeof callback !== 'function') return apply(original, this, [callback, self]);
      const checked = (value, index, list) => {
        const mapped = apply(callback, self, [value, index, list]);
        if (isArray(mapped)) checkedLength(mapped);
        return mapped;
      };
      return apply(original, this, [checked]);
    },
  }).method);
  function there(list) {
    if (list === null || list === undefined) throw new FailedType('cannot convert to object');
    return Obj(list);
  }

  // In JavaScript, because elements and arguments may change those after them. They make plain arrays, of
  // whatever class they are asked.
  replace(Array.prototype, 'flat', () => {
    const flatten = (into, list, depth) => {
      const length = checkedLength(list);
      for (let at = 0; at < length; at++) {
        if (!(at in list)) continue;
        const value = list[at];
        if (depth >= 1 && isArray(value)) flatten(into, value, depth - 1);
        else into[into.length] = value;
      }
      return into;
    };
    return { method(depth = 1) { return flatten([], there(this), +depth); } }.method;
  });
  const { isConcatSpreadable } = Symbol;
  replace(Array.prototype, 'concat', () => ({
    method(...args) {
      const into = [];
      let end = 0;
      for (let from = -1; from < args.length; from++) {
        const list = from < 0 ? there(this) : args[from];
        const isObject = list !== null && (typeof list === 'object' || typeof list === 'function');
        if (!isObject || !(list[isConcatSpreadable] ?? isArray(list))) {
          into[end++] = list;
          continue;
        }
        const length = checkedLength(list);
        for (let at = 0; at < length; at++) if (at in list) into[end + at] = list[at];
        end += length;
        into.length = end;
      }
      return into;
    },
  }).method);
  replace(JSON, 'stringify', (original) => ({
    method(value, replacer, space) {
      native.look();
      if (isArray(replacer)) checkedLength(replacer);
      return original(value, replacer, space);
    },
  }).method);

  for (const [owner, names] of [
    [JSON, ['parse']],
    [Obj, ['assign', 'entries', 'fromEntries', 'getOwnPropertyDescriptors', 'getOwnPropertyNames', 'keys', 'values']],
    [Reflect, ['ownKeys']],
  ]) {
    for (const name of names) {
      replace(owner, name, (original) => ({
        method(...args) {
          native.look();
          return apply(original, this, args);
        },
      }).method);
    }
  }
  const Views = getPrototypeOf(Uint8Array);
  for (const name of [
    'copyWithin', 'fill', 'includes', 'indexOf', 'join', 'lastIndexOf', 'reverse', 'set', 'slice', 'sort',
    'toLocaleString', 'toReversed', 'toSorted', 'with',
  ]) {
    replace(Views.prototype, name, (original) => ({
      method(...args) {
        looked(apply(viewLength, this, []));
        if (name === 'set') checkedLength(args[0]);
        return apply(original, this, args);
      },
    }).method);
  }
  replace(Views, 'from', (original) => ({
    method(...args) {
      checkedLength(args[0]);
      return apply(original, this, args);
    },
  }).method);

  // Code is made from texts while modules load, as bundles do to find the global object, and never later: the
  // process dies when memory runs out while it is compiled (quickjs-ng 0.16.2, `resolve_scope_var`).
  function checkCode() {
    if (!registry.isLoading) throw new FailedType('code cannot be made from text once the modules are loaded');
  }
  replace(globalThis, 'eval', (original) => ({
    method(code) {
      checkCode();
      return original(code);
    },
  }).method);
  for (const sample of [function () {}, async function () {}, function* () {}, async function* () {}]) {
    const prototype = getPrototypeOf(sample);
    const Original = prototype.constructor;
    const Checked = function (...args) {
      checkCode();
      return construct(Original, args, new.target ?? Original);
    };
    defineProperty(Checked, 'name', { value: Original.name });
    defineProperty(Checked, 'length', { value: 1 });
    defineProperty(Checked, 'prototype', { value: prototype, writable: false });
    defineProperty(prototype, 'constructor', { value: Checked });
    if (Original === globalThis.Function) globalThis.Function = Checked;
  }

  function checkSearch(steps) {
    if (steps > SEARCH_MAX) throw new FailedRange('the text to search for is too long');
  }

  for (const [name, symbol] of [
    ['includes', Symbol.match], ['indexOf'], ['lastIndexOf'], ['replace', Symbol.replace],
    ['replaceAll', Symbol.replace], ['split', Symbol.split],
  ]) {
    replace(String.prototype, name, (original) => ({
      method(...args) {
        if (this === null || this === undefined) return apply(original, this, args);
        let [what] = args;
        if (what !== null && typeof what === 'object' && symbol !== undefined) {
          if (name === 'replaceAll' && what instanceof Pattern && !text(what.flags).includes('g')) {
            throw new FailedType('replaceAll must be called with a global RegExp');
          }
          const own = what[symbol];
          if (own !== null && own !== undefined) {
            if (name === 'includes') throw new FailedType('regexp not supported');
            return apply(own, what, [this, args[1]]);
          }
        }
        const where = text(this);
        looked(where.length);
        if (what !== null && (typeof what === 'object' || typeof what === 'function')) {
          what = args[0] = text(what);
        }
        if (typeof what === 'string' && what.length > 64) checkSearch(what.length * where.length);
        return apply(original, where, args);
      },
    }).method);
  }

  for (const name of [
    'concat', 'localeCompare', 'normalize', 'padEnd', 'padStart', 'repeat', 'toLocaleLowerCase', 'toLocaleUpperCase',
    'toLowerCase', 'toUpperCase', 'trim', 'trimEnd', 'trimStart',
  ]) {
    replace(String.prototype, name, (original) => ({
      method(...args) {
        if (typeof this === 'string') {
          const { length } = this;
          looked(typeof args[0] === 'number' ? length * args[0] + args[0] : length);
          // Marks that combine are sorted one by one.
          if (name === 'normalize' && length > NORMALIZED_MAX) throw new FailedRange('the text is too long for this');
        }
        return apply(original, this, args);
      },
    }).method);
  }
  for (const name of ['parseInt', 'parseFloat']) {
    replace(globalThis, name, (original) => ({
      method(...args) {
        if (typeof args[0] === 'string') looked(args[0].length);
        return apply(original, this, args);
      },
    }).method);
  }
  // Its digits cost the square of their number.
  const WRITTEN_MAX = 1n << 65536n;
  for (const name of ['toString', 'toLocaleString']) {
    replace(BigInt.prototype, name, (original) => ({
      method(...args) {
        if (typeof this === 'bigint' && (this > WRITTEN_MAX || this < -WRITTEN_MAX)) {
          throw new FailedRange('the number has too many digits for this');
        }
        return apply(original, this, args);
      },
    }).method);
  }

  replace(String, 'raw', () => ({
    method(template, ...values) {
      const { raw } = there(template);
      const length = checkedLength(there(raw));
      let made = '';
      for (let at = 0; at < length; at++) {
        made += text(raw[at]);
        if (at + 1 < length && at < values.length) made += text(values[at]);
      }
      return made;
    },
  }).method);

  // Collections are filled step by step from what is iterable.
  for (const [name, adder] of [['Map', 'set'], ['Set', 'add'], ['WeakMap', 'set'], ['WeakSet', 'add']]) {
    const Original = globalThis[name];
    const Filled = function (items) {
      if (new.target === undefined) throw new FailedType(`constructor ${name} requires 'new'`);
      const made = construct(Original, [], new.target);
      if (items === null || items === undefined) return made;
      const add = made[adder];
      for (const item of items) {
        if (adder === 'add') apply(add, made, [item]);
        else if (item === null || typeof item !== 'object') throw new FailedType('not an object');
        else apply(add, made, [item[0], item[1]]);
      }
      return made;
    };
    for (const key of ownKeys(Original)) defineProperty(Filled, key, getOwnPropertyDescriptor(Original, key));
    defineProperty(Original.prototype, 'constructor', { value: Filled });
    globalThis[name] = Filled;
  }
  // What came after ES2023 and iterates in one piece.
  const iterators = getPrototypeOf(getPrototypeOf([][Symbol.iterator]()));
  for (const [owner, kept] of [
    [iterators, [Symbol.iterator, Symbol.toStringTag, 'constructor']],
    [iterators.constructor, ['length', 'name', 'prototype']],
  ]) {
    if (owner !== Obj) for (const key of ownKeys(owner)) if (!kept.includes(key)) delete owner[key];
  }
  delete globalThis.Iterator;
  for (const name of [
    'difference', 'intersection', 'isDisjointFrom', 'isSubsetOf', 'isSupersetOf', 'symmetricDifference', 'union',
  ]) {
    delete Set.prototype[name];
  }
  delete Math.sumPrecise;

  // The logger.

  function shown(value, verb) {
    if (typeof value === 'string') return verb === 'q' ? stringify(value) : value;
    if (value === null || typeof value !== 'object' || value instanceof Failed) return text(value);
    try {
      return stringify(value) ?? text(value);
    } catch {
      return text(value);
    }
  }

  function printf(format, args) {
    if (typeof format !== 'string') throw new FailedType('invalid format argument: must be a string');
    let next = 0;
    let line = format.replace(/%[-+# 0]*[\d.]*([a-zA-Z%])/g, (whole, verb) => {
      if (verb === '%') return '%';
      if (args.length === 0) return whole;
      return next < args.length ? shown(args[next++], verb) : `%!${verb}(MISSING)`;
    });
    while (next < args.length) line += ` ${shown(args[next++], 'v')}`;
    return line;
  }

  class Logger {
    #fields;
    constructor(fields) {
      this.#fields = fields;
      freeze(this);
    }
    #write(level, format, args) {
      let line = printf(format, args);
      for (const name of keys(this.#fields)) line += ` ${name}=${shown(this.#fields[name], 'v')}`;
      native.log(level, line);
    }
    debug(format, ...args) { this.#write(0, format, args); }
    info(format, ...args) { this.#write(1, format, args); }
    warn(format, ...args) { this.#write(2, format, args); }
    error(format, ...args) { this.#write(3, format, args); }
    withField(key, value) {
      if (typeof key !== 'string') throw new FailedType('key argument must be a string');
      if (typeof value !== 'string') throw new FailedType('value argument must be a string');
      return new Logger({ ...this.#fields, [key]: value });
    }
    withFields(pairs) {
      if (pairs === null || typeof pairs !== 'object') throw new FailedType('argument must be a map');
      return new Logger({ ...this.#fields, ...pairs });
    }
    getFields() { return { ...this.#fields }; }
  }
  freeze(Logger);
  freeze(Logger.prototype);
  const logger = new Logger({});

  // nk: a function is made when it is asked for first.

  const refuse = () => false;
  const readOnly = {
    set: refuse, defineProperty: refuse, deleteProperty: refuse, setPrototypeOf: refuse, preventExtensions: refuse,
  };
  const made = create(null);
  const nk = new Proxy(made, {
    ...readOnly,
    get(_, name) {
      if (typeof name !== 'string') return undefined;
      return made[name] ?? (made[name] = native.bind(name));
    },
    has: (_, name) => typeof name === 'string' && nk[name] !== undefined,
  });

  const CALLBACKS = [
    'matchInit', 'matchJoinAttempt', 'matchJoin', 'matchLeave', 'matchLoop', 'matchTerminate', 'matchSignal',
  ];

  const context = (mode) => ({ env, executionMode: mode, node, version });

  const entry = {
    __proto__: null,
    shared: {
      CALLBACKS, Failed, FailedType, context, defineProperty, freeze, getOwnPropertyDescriptor, isArray, keys,
      logger, lower, native, nk, node, ownKeys, preventExtensions, readOnly, refuse, registry, stringify, text,
    },
  };

  // Finds what another VM's InitModule has registered.
  entry.restore = (json) => {
    const plan = parse(json);
    const { matches, registered } = registry;
    for (const kind of keys(registered)) {
      for (const id of keys(plan[kind])) {
        const name = plan[kind][id];
        registered[kind][id] = name === '' ? refuse : globalThis[name];
      }
    }
    for (const id of keys(plan.matches)) {
      matches[id] = {};
      for (const callback of CALLBACKS) matches[id][callback] = globalThis[plan.matches[id][callback]];
    }
  };

  entry.loaded = () => {
    registry.isLoading = false;
  };

  return entry;
})
