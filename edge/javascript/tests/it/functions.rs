//! `nk`: names, the order of arguments, the forms of results, wrong arguments.

use crate::host::TestHost;
use crate::{load, rpc, run, run_on};

fn with_database() -> TestHost {
    let store = store::Store::open_in_memory().unwrap();
    TestHost { real_db: Some(store.connect().unwrap()), ..TestHost::default() }
}

#[test]
fn storage_and_accounts_have_the_forms_of_nakama() {
    let body = r"
        var auth = nk.authenticateCustom('partner-17', 'ann', true);
        nk.accountUpdateId(auth.userId, null, 'Ann', null, null, null, null,
            { someKey: { inner_key: 1 } });
        var account = nk.accountGetId(auth.userId);
        var wallet = nk.walletUpdate(auth.userId, { goldCoins: 5 }, { why: 'x' }, true);
        var ledger = nk.walletLedgerList(auth.userId, 10);
        var acks = nk.storageWrite([{ collection: 'c', key: 'k', userId: auth.userId,
            value: { userId: 'kept', snake_case: [1, 2.5, null, 'ü'] }, permissionRead: 2 }]);
        var read = nk.storageRead([{ collection: 'c', key: 'k', userId: auth.userId }]);
        var list = nk.storageList(auth.userId, 'c', 10);
        return JSON.stringify([
            auth.created, account.user.displayName, account.user.metadata, account.displayName,
            account.customId, wallet, ledger.items.length, ledger.items[0].changeset,
            Object.keys(acks[0]).sort(), read[0].value.userId, read[0].value.snake_case,
            read[0].permissionRead, read[0].updateTime > 1e9, list.objects.length, list.cursor,
        ]);";
    let expected = concat!(
        r#"[true,"Ann",{"someKey":{"inner_key":1}},null,"#,
        r#""partner-17",{"updated":{"goldCoins":5},"previous":{}},1,{"goldCoins":5},"#,
        r#"["collection","key","userId","version"],"kept",[1,2.5,null,"ü"],"#,
        r"2,true,1,null]"
    );
    assert_eq!(run_on(body, &mut with_database()), expected);
}

#[test]
fn bytes_are_array_buffers_or_text() {
    for (body, expected) in [
        ("nk.base64Encode('hello')", "aGVsbG8="),
        ("nk.base16Encode(new Uint8Array([1, 255]).buffer)", "01ff"),
        ("nk.base64UrlEncode(new Uint8Array([255, 254]))", "__4="),
        ("nk.binaryToString(nk.base64Decode('aGVsbG8='))", "hello"),
        ("nk.hmacSha256Hash('a', 'b') instanceof ArrayBuffer", "true"),
        ("nk.secureRandomBytes(9).byteLength", "9"),
        ("nk.sha256Hash('hello').slice(0, 8)", "2cf24dba"),
        ("nk.stringToBinary('ü').byteLength", "2"),
        ("nk.uuidv4().length", "36"),
        (
            "nk.localcachePut('k', {a_b: [1]}) || JSON.stringify(nk.localcacheGet('k'))",
            "{\"a_b\":[1]}",
        ),
        ("nk.cronNext('0 * * * *', 1)", "3600"),
        ("nk.fileRead('words.txt').length", "3"),
    ] {
        assert_eq!(run(&format!("return String({body})")), expected, "{body}");
    }
}

#[test]
fn wrong_arguments_are_type_errors_that_name_them() {
    for (body, expected) in [
        ("nk.accountGetId()", "TypeError: accountGetId: argument 1: string expected, got null"),
        ("nk.accountGetId({})", "TypeError: accountGetId: argument 1: string expected, got object"),
        (
            "nk.accountUpdateId('00000000-0000-4000-8000-000000000001', null, null, null, null, \
             null, null, 7)",
            "TypeError: accountUpdateId: argument 8: ",
        ),
        ("nk.storageRead(7)", "TypeError: storageRead: argument 1: "),
        ("nk.base64Encode('')", "TypeError: base64Encode: argument 1: "),
        (
            "nk.storageRead([Symbol()])",
            "TypeError: storageRead: argument 1: cannot convert a symbol",
        ),
        (
            "var o = {}; o.o = o; nk.localcachePut('k', o)",
            "TypeError: localcachePut: argument 2: object nested deeper",
        ),
        (
            "nk.localcachePut('k', new Array(4e9))",
            "TypeError: localcachePut: argument 2: value larger than",
        ),
        ("nk.localcachePut('k', { get a() { throw new Error('mine'); } })", "Error: mine"),
        (
            "nk.leaderboardCreate('x', true)",
            "Error: nk.leaderboardCreate is not implemented in throng yet",
        ),
        ("nk.noSuchThing()", "TypeError: not a function"),
        ("nk.binaryToString('x')", "TypeError: expects a ArrayBuffer object"),
    ] {
        let answer = run(body);
        assert!(answer.starts_with(&format!("!13 {expected}")), "{body}: {answer}");
    }
}

/// An error of `nk` can be caught, as any other.
#[test]
fn refusals_can_be_caught() {
    let body = "try { nk.matchSignal('busy', 'x') } catch (e) { return e.message }";
    assert_eq!(run(body), "failed to signal match: match busy");
    let id = run("return nk.matchCreate('arena', { someKey: 1 })");
    assert_eq!(id, "00000000-0000-4000-8000-000000000001.node1");
}

#[test]
fn values_kept_after_their_call_do_no_harm() {
    let mut host = TestHost::default();
    let text = "let kept;\nfunction t(ctx, logger, nk, payload) {\n\
                  if (kept === undefined) { kept = { nk: nk, ctx: ctx }; return 'kept'; }\n\
                  return kept.nk.uuidv4().length + kept.ctx.executionMode;\n}\n\
                function InitModule(a, b, c, i) { i.registerRpc('t', t); }";
    let mut scripts = load(text, &mut host);
    assert_eq!(rpc(&mut scripts, &mut host, "t", ""), Ok(Some("kept".to_owned())));
    assert_eq!(rpc(&mut scripts, &mut host, "t", ""), Ok(Some("36rpc".to_owned())));
}

/// What the prelude puts in the place of the engine's methods does what the language says.
#[test]
fn guarded_methods_are_those_of_the_language() {
    for (body, expected) in [
        ("[1, [2, [3, [4]]]].flat()", "[1,2,[3,[4]]]"),
        ("[1, [2, [3, [4]]]].flat(Infinity)", "[1,2,3,4]"),
        ("[1, , 2].flat()", "[1,2]"),
        ("[1, 2].flatMap(function (x) { return [x, [x * 2]]; })", "[1,[2],2,[4]]"),
        ("[1].concat(2, [3, [4]], 'ab')", "[1,2,3,[4],\"ab\"]"),
        ("[1].concat(new Array(2)).length", "3"),
        (
            "Array.prototype.concat.call([], { length: 1, 0: 'x', [Symbol.isConcatSpreadable]: true })",
            "[\"x\"]",
        ),
        ("(function () { return [].slice.call(arguments, 1); })(1, 2, 3)", "[2,3]"),
        ("[].map.call('abc', function (c) { return c + c; })", "[\"aa\",\"bb\",\"cc\"]"),
        ("[].indexOf.call(new Uint8Array([1, 2, 3]), 3)", "2"),
        (
            "[String.raw`a\\n${1}b`, String.raw({ raw: ['x', 'y', 'z'] }, 1)]",
            "[\"a\\\\n1b\",\"x1yz\"]",
        ),
        ("[3, 1, 2].sort().reverse()", "[3,2,1]"),
        ("'a-b-c'.split('-')", "[\"a\",\"b\",\"c\"]"),
        ("'a1b2'.split(/\\d/, 2)", "[\"a\",\"b\"]"),
        ("'aXbX'.replace('X', function () { return '-'; })", "\"a-bX\""),
        ("'aXbX'.replace(/X/g, '-')", "\"a-b-\""),
        ("'aXbX'.replaceAll(/X/g, '-') + 'aXbX'.replaceAll('X', '+')", "\"a-b-a+b+\""),
        ("['null'.includes(null), 'x1'.indexOf(1), 'abcabc'.lastIndexOf('c')]", "[true,1,5]"),
        ("Array.from(new Set([1, 2, 2]))", "[1,2]"),
        ("Array.from(new Map([['a', 1], ['b', 2]]).entries())", "[[\"a\",1],[\"b\",2]]"),
        (
            "(class More extends Map { twice(k) { return 2 * this.get(k); } }, new (class extends Map {})([[1, 2]])).get(1)",
            "2",
        ),
        (
            "[new Set() instanceof Set, new Map().constructor === Map, Set.name, Map.length]",
            "[true,true,\"Set\",0]",
        ),
        ("JSON.stringify({ a: 1, b: 2 }, ['a'])", "\"{\\\"a\\\":1}\""),
        (
            "[parseInt('12', 8), parseFloat('1.5'), 'ab'.repeat(2), 'x'.padStart(3, '-')]",
            "[10,1.5,\"abab\",\"--x\"]",
        ),
        ("[(255n).toString(16), Object.keys({ a: 1 }), JSON.parse('[1]')]", "[\"ff\",[\"a\"],[1]]"),
        (
            "[Array.from(Uint8Array.from([3, 1]).sort()), Function.name, (function () {}) instanceof Function]",
            "[[1,3],\"Function\",true]",
        ),
        ("[[].concat.name, [].flat.length, ''.replace.length]", "[\"concat\",0,2]"),
    ] {
        assert_eq!(run(&format!("return JSON.stringify({body})")), expected, "{body}");
    }
    for body in [
        "'a'.includes(/a/)",
        "'a'.replaceAll(/a/, '')",
        "Set()",
        "new Map([1])",
        "[].flat.call(null)",
    ] {
        assert!(run(body).starts_with("!13 TypeError"), "{body}: {}", run(body));
    }
}

#[test]
fn other_servers_answer_with_headers_as_they_are() {
    let body = "var got = nk.httpRequest('http://other/x', 'post', { 'X-Some_Key': 'a' }, 'body'); \
                return JSON.stringify([Object.keys(got), got.code, got.headers, got.body]);";
    let got = r#"[["code","headers","body"],200,{"X-Some_Key":"a"},"POST 5000 body"]"#;
    assert_eq!(run(body), got);
}
