//! Tests of session tokens and revocations.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::*;

fn now(unix_ms: u64) -> Now {
    Now { mono_ns: 0, unix_ms }
}

fn signer() -> Signer {
    Signer::new(&SessionSettings {
        encryption_key: "defaultencryptionkey".into(),
        refresh_encryption_key: "defaultrefreshencryptionkey".into(),
        token_expiry_s: 60,
        refresh_token_expiry_s: 3_600,
    })
}

const START_MS: u64 = 1_700_000_000_123;

#[test]
fn a_token_of_another_maker_is_understood() {
    // The example of jwt.io, which every JWT library agrees on.
    let key = Key::new(b"your-256-bit-secret");
    let claims = br#"{"sub":"1234567890","name":"John Doe","iat":1516239022}"#;
    let token = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6Ikpva\
                 G4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c";
    assert_eq!(key.sign(claims), token);
    assert_eq!(key.open(token).unwrap(), claims);
}

#[test]
fn long_keys_are_hashed_as_the_rfc_says() {
    // RFC 4231 case 6: a key of 131 bytes.
    let key = Key::new(&[0xaa; 131]);
    let mac = key.sign(b"{}");
    let hashed = <sha2::Sha256 as sha2::Digest>::digest([0xaa; 131]);
    assert_eq!(mac, Key::new(&hashed).sign(b"{}"));
    assert_ne!(mac, Key::new(&[0xaa; 130]).sign(b"{}"));
}

#[test]
fn both_tokens_say_the_same_but_for_key_and_end() {
    let (signer, mut random) = (signer(), Random::from_number(1));
    let user_id = Uuid::from_u128(7);
    let vars = vec![("b".to_owned(), "\"2\"".to_owned()), ("a".to_owned(), "1".to_owned())];
    let tokens = signer.issue(now(START_MS), &mut random, user_id, "Ann \"x\"", &vars);
    assert_eq!(signer.verify_session(&tokens.token, now(START_MS)).unwrap(), tokens.claims);
    let session = signer.verify_session(&tokens.token, now(START_MS)).unwrap();
    let refresh = signer.verify_refresh(&tokens.refresh_token, now(START_MS)).unwrap();
    assert_eq!(session.user_id, user_id);
    assert_eq!(&*session.username, "Ann \"x\"");
    assert_eq!(session.vars, [vars[1].clone(), vars[0].clone()]);
    assert_eq!(session.issued_s, START_MS / 1_000);
    assert_eq!(session.issued_ms(), START_MS);
    assert_eq!(session.expires_s, START_MS / 1_000 + 60);
    assert_eq!(refresh.expires_s, START_MS / 1_000 + 3_600);
    assert_eq!(Claims { expires_s: session.expires_s, ..refresh.clone() }, session);
    assert_eq!(signer.verify_session(&tokens.refresh_token, now(0)), Err(TokenError::Signature));

    let later = now(START_MS + 30_000);
    let renewed = signer.renew(later, &refresh, "Bob", &refresh.vars);
    assert_eq!(signer.verify_session(&renewed.token, later).unwrap(), renewed.claims);
    let claims = signer.verify_session(&renewed.token, later).unwrap();
    assert_eq!((claims.token_id, claims.issued_s), (session.token_id, session.issued_s));
    assert_eq!((&*claims.username, claims.expires_s), ("Bob", later.unix_s() + 60));
}

#[test]
fn claims_are_laid_out_as_the_original_does() {
    let (signer, mut random) = (signer(), Random::from_number(1));
    let (token, expires_s) =
        signer.issue_session(now(START_MS), &mut random, Uuid::nil(), "n", &[], 0);
    assert_eq!(expires_s, START_MS / 1_000 + 60);
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    let claims = String::from_utf8(claims).unwrap();
    let token_id = signer.verify_session(&token, now(START_MS)).unwrap().token_id;
    assert_eq!(
        claims,
        format!(
            r#"{{"tid":"{token_id}","uid":"{}","usn":"n","exp":{expires_s},"iat":1700000000}}"#,
            Uuid::nil()
        )
    );
    let (_, given) = signer.issue_session(now(START_MS), &mut random, Uuid::nil(), "n", &[], 99);
    assert_eq!(given, 99);
}

#[test]
fn expired_from_the_second_of_exp_on() {
    let (signer, mut random) = (signer(), Random::from_number(1));
    let token = signer.issue(now(START_MS), &mut random, Uuid::nil(), "n", &[]).token;
    let end_s = START_MS / 1_000 + 60;
    assert!(signer.verify_session(&token, now(end_s * 1_000 - 1)).is_ok());
    let expired = Err(TokenError::Expired { expires_s: end_s });
    assert_eq!(signer.verify_session(&token, now(end_s * 1_000)), expired);
}

#[test]
fn every_changed_or_cut_token_is_refused() {
    let (signer, mut random) = (signer(), Random::from_number(1));
    let good = signer.issue(now(START_MS), &mut random, Uuid::from_u128(5), "name", &[]).token;
    for at in 0..good.len() {
        assert!(signer.verify_session(&good[..at], now(START_MS)).is_err(), "cut at {at}");
        let mut changed = good.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'E' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        assert!(signer.verify_session(&changed, now(START_MS)).is_err(), "changed at {at}");
    }
    assert!(signer.verify_session(&format!("{good}="), now(START_MS)).is_err());
    assert!(signer.verify_session(&format!("{good}.x"), now(START_MS)).is_err());
    let long = "a".repeat(TOKEN_BYTES_MAX + 1);
    let error = TokenError::TooLong { bytes: TOKEN_BYTES_MAX + 1 };
    assert_eq!(signer.verify_session(&long, now(START_MS)), Err(error));
}

#[test]
fn only_hs256_is_taken() {
    let key = Key::new(b"k");
    let signed = key.sign(br#"{"a":1}"#);
    let claims = signed.split('.').nth(1).unwrap();
    for (header, expected) in [
        (r#"{"typ":"JWT","alg":"none"}"#, TokenError::Algorithm),
        (r#"{"alg":"HS512"}"#, TokenError::Algorithm),
        (r#"{"alg":1}"#, TokenError::Malformed),
        (r#"{"typ":"JWT"}"#, TokenError::Malformed),
        ("[]", TokenError::Malformed),
    ] {
        let token = format!("{}.{claims}.", URL_SAFE_NO_PAD.encode(header));
        assert_eq!(key.open(&token), Err(expected), "{header}");
    }
    assert_eq!(
        key.open(&format!("{}.", signed.rsplit_once('.').unwrap().0)).unwrap_err(),
        TokenError::Signature
    );
}

#[test]
fn claims_of_another_kind_are_refused() {
    let signer = signer();
    for claims in [
        "{}",
        "[]",
        "null",
        r#"{"tid":"x","uid":"00000000-0000-0000-0000-000000000000","exp":9999999999}"#,
        r#"{"tid":"00000000-0000-0000-0000-000000000000","uid":"","exp":9999999999}"#,
        r#"{"tid":"00000000-0000-0000-0000-000000000000","uid":"00000000-0000-0000-0000-000000000000"}"#,
        r#"{"tid":"00000000-0000-0000-0000-000000000000","uid":"00000000-0000-0000-0000-000000000000","exp":-1}"#,
    ] {
        let token = signer.session_key().sign(claims.as_bytes());
        assert_eq!(signer.verify_session(&token, now(0)), Err(TokenError::Claims), "{claims}");
    }
}

#[test]
fn revocations_hold_for_one_token_or_for_all_up_to_a_moment() {
    let (signer, mut random) = (signer(), Random::from_number(1));
    let user_id = Uuid::from_u128(9);
    let mut login = |unix_ms| {
        let token = signer.issue(now(unix_ms), &mut random, user_id, "n", &[]).token;
        signer.verify_session(&token, now(unix_ms)).unwrap()
    };
    let (first, second, third) = (login(START_MS), login(START_MS + 1), login(START_MS + 2));
    let mut revocations = Revocations::default();
    assert!(!revocations.is_revoked(&first));

    let until_s = first.expires_s;
    let (token_id, issued_ms) = (first.token_id, first.issued_ms());
    let one = Revocation::Token { user_id, token_id, issued_ms, until_s };
    revocations.apply(now(START_MS), &one);
    revocations.apply(now(START_MS), &one);
    assert!(revocations.is_revoked(&first) && !revocations.is_revoked(&second));
    assert_eq!(revocations.len(), 2);

    let issued_until_ms = START_MS + 1;
    revocations.apply(now(START_MS), &Revocation::User { user_id, issued_until_ms, until_s });
    revocations.apply(now(START_MS), &Revocation::User { user_id, issued_until_ms: 0, until_s });
    assert!(revocations.is_revoked(&second) && !revocations.is_revoked(&third));
    assert_eq!(revocations.len(), 1, "what the second says of the first is said by the third");

    // A token of Nakama has a random id and only seconds.
    let foreign = Claims { token_id: Uuid::from_u128(1), ..second.clone() };
    assert!(!revocations.is_revoked(&foreign));
    let foreign = Claims { issued_s: START_MS / 1_000 - 1, ..foreign };
    assert!(revocations.is_revoked(&foreign));

    revocations.sweep(now(until_s * 1_000));
    assert!(revocations.is_empty() && !revocations.is_revoked(&first));
}

fn claims_of(user_id: Uuid) -> Claims {
    let (signer, mut random) = (signer(), Random::from_number(3));
    let token = signer.issue(now(START_MS), &mut random, user_id, "n", &[]).token;
    signer.verify_session(&token, now(START_MS)).unwrap()
}

#[test]
fn log_outs_of_others_cost_neither_bans_nor_deletions() {
    let [banned, deleted] = [1, 2].map(Uuid::from_u128);
    let mut revocations = Revocations::default();
    let until_s = START_MS / 1_000 + 10;
    revocations.apply(now(START_MS), &Revocation::Banned { user_id: banned });
    revocations.apply(now(START_MS), &Revocation::Deleted { user_id: deleted, until_s });
    // As many as one attacker made in 15 seconds, all of which lapse later.
    for number in 0..446_144_u32 {
        let (user_id, token_id) =
            (Uuid::from_u128(u128::from(number) + 10), Uuid::from_u128(u128::from(number)));
        let until_s = until_s + 1;
        let one = Revocation::Token { user_id, token_id, issued_ms: 1, until_s };
        revocations.apply(now(START_MS), &one);
        if number % 65_536 == 0 {
            assert!(revocations.is_revoked(&claims_of(banned)), "{number}");
        }
    }
    for user_id in [banned, deleted] {
        assert!(revocations.is_revoked(&claims_of(user_id)));
    }
    assert!(revocations.len() <= LOG_OUTS_MAX + 1);
    assert!(revocations.forgotten_count() >= u64::from(446_144 - (1_u32 << 18)));
    revocations.apply(now(START_MS), &Revocation::Unbanned { user_id: banned });
    assert!(!revocations.is_revoked(&claims_of(banned)));
}

#[test]
fn too_many_revocations_cost_those_that_lapse_first() {
    let mut revocations = Revocations::default();
    let (mut first, mut last) = (None, None);
    for number in 0..=DELETIONS_MAX as u64 {
        let user_id = Uuid::from_u128(u128::from(number));
        let deleted = Revocation::Deleted { user_id, until_s: 1_000_000_000 - number };
        revocations.apply(now(0), &deleted);
        first.get_or_insert(user_id);
        last = Some(user_id);
    }
    assert_eq!((revocations.len(), revocations.forgotten_count()), (DELETIONS_MAX, 1));
    assert!(revocations.is_revoked(&claims_of(first.unwrap())));
    assert!(!revocations.is_revoked(&claims_of(last.unwrap())));
}
