//! What `throng ping`, `throng flow` and `throng load` share: flags that they have, places for a result's files that
//! were tried before the run, the files, what is printed last, the exit code.
//!
//! In: flags and a finished run. Out: files, lines, a code. What is measured is `lab`'s.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use lab::load::{Finished, Intervals, Summary, TlsChoice, Trust, advice};
use lab::ping::Family;

use crate::load::files::{self, Claim};
use crate::load::{Interrupt, result_files};
use crate::{EXIT_FAILED, EXIT_WRONG, complain};

/// Help of the flag with which a client says its token.
pub const SAY_TOKEN: &str =
    "Says to the server that one may; THRONG_TOKEN in the environment is not seen by others";

/// A flag that is given or not.
pub fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// A flag with a value.
pub fn value(name: &'static str, form: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(form).help(help)
}

/// The flag of a token.
pub fn token_arg(help: &'static str) -> Arg {
    value("token", "TOKEN", help)
}

/// The flags of an address's kind, which [`family`] reads.
pub fn families() -> [Arg; 2] {
    let ipv6 = flag("ipv6", "Use IPv6").short('6');
    [flag("ipv4", "Use IPv4").short('4').conflicts_with("ipv6"), ipv6]
}

/// Of which kind an address is to be.
pub fn family(matches: &ArgMatches) -> Family {
    match (matches.get_flag("ipv4"), matches.get_flag("ipv6")) {
        (true, _) => Family::V4,
        (_, true) => Family::V6,
        _ => Family::Any,
    }
}

/// The environment variable that says the token where no flag does: flags can be seen by others.
const TOKEN: &str = "THRONG_TOKEN";

/// The token that a flag or the environment says.
pub fn token(matches: &ArgMatches) -> Option<String> {
    let typed = matches.get_one::<String>("token").cloned();
    typed.or_else(|| std::env::var(TOKEN).ok()).filter(|token| !token.is_empty())
}

/// Likewise, for a client, who may only say what is one.
///
/// # Errors
/// When it is none.
pub fn said_token(matches: &ArgMatches) -> anyhow::Result<Option<String>> {
    let token = token(matches);
    anyhow::ensure!(
        token.as_deref().is_none_or(lab::ping::is_token),
        "--token: one word of 1 to {} visible ASCII characters",
        lab::ping::TOKEN_BYTES_MAX
    );
    Ok(token)
}

/// The flags of TLS, which [`tls_choice`] reads.
pub fn tls_args() -> [Arg; 3] {
    [
        value(
            "tls-ca",
            "FILE",
            "With https:// and wss://: trust the authorities in this PEM file, and no others; those \
             of this machine by default",
        )
        .value_parser(value_parser!(PathBuf)),
        flag("tls-insecure", "With https:// and wss://: take any certificate; the result says so")
            .conflicts_with("tls-ca"),
        flag(
            "tls-fresh",
            "With https:// and wss://: a full handshake for every connection; by default who connects \
             again resumes its own session",
        ),
    ]
}

/// What is asked for of TLS; `why_not` says why it is not spoken.
///
/// # Errors
/// When something is asked for, and it is not spoken.
pub fn tls_choice(
    matches: &ArgMatches,
    is_spoken: bool,
    why_not: &str,
) -> anyhow::Result<TlsChoice> {
    let ca: Option<&PathBuf> = matches.get_one("tls-ca");
    let (is_insecure, is_fresh) = (matches.get_flag("tls-insecure"), matches.get_flag("tls-fresh"));
    for (flag, is_given) in
        [("tls-ca", ca.is_some()), ("tls-insecure", is_insecure), ("tls-fresh", is_fresh)]
    {
        anyhow::ensure!(!is_given || is_spoken, "--{flag}: {why_not}");
    }
    let trust = match ca {
        Some(path) => Trust::File(path.clone()),
        None if is_insecure => Trust::Anybody,
        None => Trust::System,
    };
    Ok(TlsChoice { trust, resumes: !is_fresh })
}

/// The flags of a result.
pub fn args(example: &'static str) -> [Arg; 3] {
    let path = value_parser!(PathBuf);
    let files = "Write result.json, result.hlog, series.csv and report.html there";
    [
        value("out", "DIR", files).value_parser(path.clone()),
        value("json", "FILE", "Write the result as JSON").value_parser(path),
        value("expect", "CONDITION", "")
            .action(ArgAction::Append)
            .help(format!("Exit with 1 unless it holds: {example}")),
    ]
}

/// Where a result goes.
pub struct Places {
    folder: Option<PathBuf>,
    json: Option<PathBuf>,
    _claim: Option<Claim>,
}

impl Places {
    /// Finds out before the run what cannot be written after it.
    ///
    /// # Errors
    /// What cannot.
    pub fn claim(matches: &ArgMatches) -> anyhow::Result<Self> {
        let folder: Option<&PathBuf> = matches.get_one("out");
        let claim = folder.map(|it| Claim::folder(it)).transpose()?;
        let json: Option<&PathBuf> = matches.get_one("json");
        if let Some(path) = json {
            files::try_file(path).context("--json")?;
        }
        Ok(Self { folder: folder.cloned(), json: json.cloned(), _claim: claim })
    }

    /// Writes all files, those that are given too.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn write(
        &self,
        summary: &Summary,
        intervals: &Intervals,
        mut files: Vec<(PathBuf, Vec<u8>)>,
    ) -> anyhow::Result<()> {
        if let Some(folder) = &self.folder {
            std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
            files.extend(result_files(folder, summary, intervals)?);
        }
        if let Some(path) = &self.json {
            files.push((path.clone(), lab::load::json(summary)?));
        }
        files::write(&files)
    }

    /// Prints the result, and what became of expectations.
    ///
    /// # Errors
    /// When nobody reads it.
    pub fn tell(&self, summary: &Summary, text: &str) -> anyhow::Result<()> {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        if let Some(folder) = &self.folder {
            writeln!(stdout, "report: {}", folder.join("report.html").display())?;
        }
        for verdict in &summary.expectations {
            let word = if verdict.holds { "ok    " } else { "FAILED" };
            writeln!(stdout, "{word} {}: {}", verdict.condition, verdict.found)?;
        }
        Ok(())
    }
}

/// Says why nothing was begun: a signal, or what was asked for wrongly. The exit code.
pub fn not_begun(error: &anyhow::Error, interrupt: &Interrupt) -> u8 {
    if let Some((name, code)) = interrupt.signal() {
        complain(&format_args!("ended by {name}"));
        return code;
    }
    complain(&format_args!("{error:#}"));
    EXIT_WRONG
}

/// The run that has finished, which a signal may have ended; or, without one, the exit code.
///
/// # Errors
/// Why there is none.
pub fn finished<E: std::error::Error + Send + Sync + 'static>(
    ran: Result<Finished, E>,
    interrupt: &Interrupt,
) -> anyhow::Result<Result<Finished, u8>> {
    match (ran, interrupt.signal()) {
        (Ok(mut finished), signal) => {
            if let Some((name, _)) = signal {
                finished.summary.ended = format!("interrupted ({name})");
            }
            Ok(Ok(finished))
        }
        (Err(_), Some((name, code))) => {
            complain(&format_args!("ended by {name}"));
            Ok(Err(code))
        }
        (Err(error), None) => Err(error.into()),
    }
}

/// Says in one line what was not well, if anything. The exit code.
pub fn code(summary: &Summary, interrupt: &Interrupt) -> u8 {
    if let Some((name, code)) = interrupt.signal() {
        complain(&format_args!("ended by {name}"));
        return code;
    }
    let failed = summary.expectations.iter().filter(|verdict| !verdict.holds).count();
    let of = summary.expectations.len();
    let ended = Some(&summary.ended).filter(|it| !it.is_empty()).cloned();
    let why = ended
        .or_else(|| advice::failure(summary))
        .or_else(|| (failed > 0).then(|| format!("{failed} of {of} expectations failed")));
    let Some(why) = why else { return 0 };
    complain(&why);
    EXIT_FAILED
}
