//! Functions of the host table through Lua.

use game::db::Cell;

use crate::host::TestHost;
use crate::{run, run_on};

#[test]
fn encodings_go_there_and_back() {
    for (body, wanted) in [
        (
            "return nk.json_encode({a = 1, b = {1, 2.5, 'x'}, c = {}, d = true})",
            "{\"a\":1,\"b\":[1,2.5,\"x\"],\"c\":{},\"d\":true}",
        ),
        (
            "local t = nk.json_decode('{\"a\":[1,null,{\"b\":\"c\"}]}') return t.a[3].b .. #t.a",
            "c3",
        ),
        ("return nk.json_encode(nil)", "null"),
        ("return nk.json_encode()", "!13 bad argument #1 to json_encode (value expected)"),
        (
            "return nk.json_encode(newproxy())",
            "!13 bad argument #1 to json_encode (cannot convert a userdata)",
        ),
        ("return nk.base64_encode('ab')", "YWI="),
        ("return nk.base64_encode('ab', false)", "YWI"),
        ("return nk.base64_decode('YWI')", "ab"),
        ("return nk.base64_decode('YWI=')", "ab"),
        ("return nk.base64url_encode('\\255\\254\\253')", "__79"),
        ("return nk.base64_decode(nk.base64_encode('\\0x'))", "\0x"),
        ("return nk.base16_encode('\\1\\255')", "01ff"),
        ("return nk.base16_decode('6162')", "ab"),
        ("return nk.base16_decode('616')", "!13 not a valid base16 string"),
        (
            "return nk.uuid_bytes_to_string(nk.uuid_string_to_bytes('00000000-0000-4000-8000-000000000001'))",
            "00000000-0000-4000-8000-000000000001",
        ),
        ("return tostring(#nk.uuid_v4()) .. nk.uuid_v4():sub(15, 15)", "364"),
        (
            "return nk.uuid_string_to_bytes('x')",
            "!13 bad argument #1 to uuid_string_to_bytes (not a valid UUID string)",
        ),
        ("return tostring(nk.time())", "1700000000123"),
        ("return tostring(nk.time({year = 1970, month = 1, day = 2}))", "129600000"),
    ] {
        assert_eq!(run(body), wanted, "{body}");
    }
}

#[test]
fn hashes_and_ciphers_are_the_originals() {
    for (body, wanted) in [
        ("return nk.md5_hash('abc')", "900150983cd24fb0d6963f7d28e17f72"),
        (
            "return nk.sha256_hash('abc')",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
        (
            "return nk.base16_encode(nk.hmac_sha256_hash('what do ya want for nothing?', 'Jefe'))",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (
            "local k = ('k'):rep(16) return nk.aes128_decrypt(nk.aes128_encrypt('hello, longer than a block', k), k) .. '|'",
            "hello, longer than a block  |",
        ),
        (
            "local k = ('k'):rep(32) return nk.aes256_decrypt(nk.aes256_encrypt('1234', k), k)",
            "1234",
        ),
        // From NIST SP 800-38A, F.3.13: AES-128 in CFB mode, first two blocks.
        (
            "return nk.base16_encode(nk.aes128_decrypt(nk.base16_decode('000102030405060708090a0b0c0d0e0f3b3fd92eb72dad20333449f8e83cfb4ac8a64537a0b3a93fcde3cdad9f1ce58b'), nk.base16_decode('2b7e151628aed2a6abf7158809cf4f3c')))",
            "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51",
        ),
        (
            "return nk.aes128_encrypt('x', 'short')",
            "!13 bad argument #2 to aes128_encrypt (expects key 16 bytes long)",
        ),
        (
            "return nk.jwt_generate('HS256', 'secret', {a = 1})",
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJhIjoxfQ.57TF7smP9XDhIexBqPC-F1toZReYZLWb_YRU5tv0sxM",
        ),
        (
            "return nk.jwt_generate('none', 'secret', {a = 1})",
            "!13 bad argument #1 to jwt_generate (unsupported algo type - only allowed 'HS256', 'RS256'.)",
        ),
        ("return tostring(#nk.secure_random_bytes(5))", "5"),
        (
            "return nk.secure_random_bytes(1001)",
            "!13 bad argument #1 to secure_random_bytes (count must be 1-1000)",
        ),
        (
            "return tostring(nk.bcrypt_compare('$2a$04$N3vHnBaHBbdcRKEpYKKkiOvjFUwRhXGJgrKTLVVgOFiTSpkGHr2Wi', 'x'))",
            "false",
        ),
        (
            "return tostring(nk.bcrypt_compare('$2a$31$N3vHnBaHBbdcRKEpYKKkiOvjFUwRhXGJgrKTLVVgOFiTSpkGHr2Wi', 'x'))",
            "!13 error comparing hash and plaintext: cost 31 is above 15",
        ),
    ] {
        assert_eq!(run(body), wanted, "{body}");
    }
}

#[test]
fn logs_cache_sessions_and_sql_reach_the_host() {
    let mut host = TestHost::default();
    host.db.columns = vec!["id", "name"];
    host.db.rows =
        vec![vec![Cell::Int(1), Cell::Text("a".into())], vec![Cell::Null, Cell::Blob(vec![1])]];
    let body = "
        nk.logger_warn('careful')
        print('a', 1, nil)
        nk.localcache_put('k', {x = 1}, 10)
        local session = '00000000-0000-0000-0000-000000000001'
        nk.session_disconnect(session, 3)
        nk.session_logout(session)
        local rows = nk.sql_query('SELECT 1', {1, 'x', 2.5})
        local count = nk.sql_exec('UPDATE', {})
        local ok, text = pcall(nk.sql_exec, 'BAD')
        local id = nk.match_create('arena', {a = 1})
        local ok2, text2 = pcall(nk.match_create, 'missing', nil)
        local ok3, text3 = pcall(nk.match_create, 'arena')
        return nk.json_encode({nk.localcache_get('k').x, nk.localcache_get('no', 7), rows[1].name,
            rows[2].id == nil, count, text, id, text2, text3, nk.match_signal('x', 'ping')})";
    let answer = run_on(body, "", &mut host).unwrap().unwrap();
    assert_eq!(
        answer,
        "[1,7,\"a\",true,3,\"sql exec error: bad statement: near BAD\",\
         \"00000000-0000-4000-8000-000000000001.node1\",\"error creating match: not found\",\
         \"00000000-0000-4000-8000-000000000001.node1\",\"ping\"]"
    );
    assert_eq!(host.logs, ["Warn careful", "Info a\t1\tnil"]);
    // Before them the log-out was written.
    let scripts_own = &host.db.statements[host.db.statements.len() - 2..];
    assert_eq!(scripts_own, ["SELECT 1 [Int(1), Text(\"x\"), Real(2.5)]", "UPDATE []"]);
    assert_eq!((host.disconnected.len(), host.revoked.len(), host.created.len()), (1, 1, 2));
}

#[test]
fn another_server_is_asked_as_in_nakama() {
    const METHODS: &str = "'get', 'post', 'put', 'patch', 'delete', 'head'";
    let told = "local code, headers, content = nk.http_request(ARGS)
        return code .. ' ' .. (headers['X-A'] or '-') .. ' ' .. content";
    let no_method =
        format!("!13 bad argument #2 to http_request (expects method to be one of: {METHODS})");
    for (arguments, wanted) in [
        ("'http://a', 'get', {['X-A'] = 'b'}, nil", "200 b GET 5000 "),
        ("'http://a', 'PoST', {}, 'x\\0y', 70", "200 - POST 70 x\0y"),
        ("'http://a', 'head', nil, '', 0", "200 - HEAD 5000 "),
        ("'http://a', 'put', {}, 5, -1, true", "200 - PUT 5000 5"),
        ("'', 'get'", "!13 bad argument #1 to http_request (expects URL string)"),
        ("'http://a', 'trace'", &*no_method),
        ("'http://a', 'get', {a = 1}", "!13 HTTP header values must be strings"),
        (
            "'http://a', 'get', 'a'",
            "!13 bad argument #3 to http_request (table expected, got string)",
        ),
        ("'nowhere', 'get'", "!13 HTTP request error: no such place"),
    ] {
        assert_eq!(run(&told.replace("ARGS", arguments)), wanted, "{arguments}");
    }
}

#[test]
fn the_machine_is_reached_through_its_door_only() {
    let mut host = TestHost::default();
    for (body, wanted) in [
        ("return #nk.file_read('words.txt') .. ''", "3"),
        ("return nk.file_read('../key')", "!failed to open file: open ../key: none"),
        ("return nk.file_read('')", "!bad argument #1 to file_read (expects relative path string)"),
        ("return nk.get_config().name", "node1"),
        (
            "nk.metrics_counter_add('kills', {weapon = 'bow'}, 2.9) nk.metrics_gauge_set('load', nil, -0.5)
             nk.metrics_timer_record('turn', {}, 1500000000) return 'done'",
            "done",
        ),
        (
            "return nk.metrics_counter_add('kills', {weapon = {}}, 1)",
            "!bad argument #2 to metrics_counter_add (expects tags to be strings)",
        ),
        (
            "return nk.metrics_counter_add('kills', nil, 'x')",
            "!bad argument #3 to metrics_counter_add (number expected, got string)",
        ),
        (
            "return nk.metrics_counter_add(('x'):rep(129), nil, 1)",
            "!a metric's name, tags and their values have at most 128 bytes each",
        ),
        (
            "local t = {} for i = 1, 17 do t['t' .. i] = 'x' end return nk.metrics_gauge_set('a', t, 1)",
            "!bad argument #2 to metrics_gauge_set (at most 16 tags)",
        ),
    ] {
        let answer = run_on(body, "", &mut host);
        let text = answer.map_or_else(|e| format!("!{}", e.message), Option::unwrap_or_default);
        assert_eq!(text, wanted, "{body}");
    }
    assert_eq!(
        *host.machine.metrics.borrow(),
        [r#"Counter kills [("weapon", "bow")] 2"#, "Gauge load [] -0.5", "Timer turn [] 1.5",]
    );
}
