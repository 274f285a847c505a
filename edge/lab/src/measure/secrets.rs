//! What must not be passed on with a result: keys, passwords and tokens in command lines and
//! settings, and the folder that the program lies in.

/// What stands for a secret in a result.
pub(crate) const KEY: &str = "KEY";

/// Whether what has this name must not be passed on: `--server-key`, `session.encryption_key`,
/// `console.password`.
pub(crate) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["key", "password", "passwd", "secret", "token"].iter().any(|it| name.ends_with(it))
}

/// The command line without what must not be passed on with a result: the folder that the program
/// lies in, and keys, also those in the command of `--server`.
pub(crate) fn typed(mut words: impl Iterator<Item = String>) -> Vec<String> {
    let program = words.next().map(|word| {
        let name = std::path::Path::new(&word).file_name();
        name.map_or(word.clone(), |name| name.to_string_lossy().into_owned())
    });
    let mut is_value = false;
    let tell = |word: String| {
        if std::mem::replace(&mut is_value, word.starts_with("--") && is_secret(&word)) {
            return KEY.to_owned();
        }
        if word.contains(' ') { without_keys(&word) } else { without_key(&word) }
    };
    program.into_iter().chain(words.map(tell)).collect()
}

/// A word without the value of `name=value` if it is a secret, and without the password in
/// `user:password@host`.
fn without_key(word: &str) -> String {
    if let Some((name, value)) = word.split_once('=') {
        let value = if is_secret(name) { KEY.to_owned() } else { without_key(value) };
        return format!("{name}={value}");
    }
    if let Some((user, host)) = word.rsplit_once('@') {
        let start = user.find("://").map_or(0, |at| at + 3);
        if let Some((name, _)) = user[start..].split_once(':') {
            return format!("{}{name}:{KEY}@{host}", &user[..start]);
        }
    }
    word.to_owned()
}

/// A shell's command without keys. Quotes are minded as far as a value may have spaces.
pub(crate) fn without_keys(command: &str) -> String {
    let mut out: Vec<String> = Vec::new();
    // The quote that ends a secret value.
    let mut until = None;
    let mut is_value = false;
    for word in command.split(' ') {
        let open = |text: &str| text.chars().next().filter(|c| "'\"".contains(*c));
        if let Some(quote) = until {
            until = Some(quote).filter(|_| !word.ends_with(quote));
            continue;
        }
        let value = match word.split_once('=') {
            _ if is_value && !word.is_empty() => Some(word),
            Some((name, value)) if is_secret(name) => Some(value),
            _ => None,
        };
        if let Some(quote) = value.and_then(open) {
            let is_whole = value.is_some_and(|it| it.len() > 1 && it.ends_with(quote));
            until = Some(quote).filter(|_| !is_whole);
        }
        let has_value = is_value && !word.is_empty();
        out.push(if has_value { KEY.to_owned() } else { without_key(word) });
        is_value = (is_value && word.is_empty()) || (word.starts_with("--") && is_secret(word));
    }
    out.join(" ")
}

#[cfg(test)]
mod tests {
    use super::typed;

    #[test]
    fn keys_of_a_server_that_is_started_are_not_told() {
        for (command, wanted) in [
            ("serve --socket.server_key s3cret --port 1", "serve --socket.server_key KEY --port 1"),
            ("serve --session.encryption_key=s3cret -x", "serve --session.encryption_key=KEY -x"),
            ("serve --runtime.http_key 's3 cr' --a", "serve --runtime.http_key KEY --a"),
            ("serve --console.password=\"s3 cr et\" b", "serve --console.password=KEY b"),
            ("serve --runtime.http_key  s3cret", "serve --runtime.http_key  KEY"),
            ("env DB_PASSWORD=s3cret serve", "env DB_PASSWORD=KEY serve"),
            (
                "serve --database.address root:s3cret@db:5432",
                "serve --database.address root:KEY@db:5432",
            ),
            ("serve --url=postgres://a:s3cret@db/x", "serve --url=postgres://a:KEY@db/x"),
            ("serve --session.token_expiry_sec 60", "serve --session.token_expiry_sec 60"),
        ] {
            let words = ["throng", "load", "x", "--server", command].map(str::to_owned);
            assert_eq!(typed(words.into_iter()).last().unwrap(), wanted);
        }
        let words = "throng load x --set api_token=s3cret --set item=sword".split(' ');
        let told = typed(words.map(str::to_owned)).join(" ");
        assert_eq!(told, "throng load x --set api_token=KEY --set item=sword");
    }
}
