//! What of a fleet this machine cannot do, as far as that is known before anything starts: processors,
//! interfaces and folders that are not there, and programs that a server would not find behind its wall.
//!
//! In: a fleet, and what the machine has. Out: the setting that has to change, and the cure. Not here: what
//! the file contradicts by itself (`fleet`). A program that is not there yet is found when it is started.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{Cores, Fleet, FleetError, Server, Wall};

/// What a server within `wall = "files"` has of its own instead of the machine's. Source: `child::files`.
const OWN: &[&str] = &["/tmp", "/var/tmp", "/run", "/var/run", "/dev", "/sys"];

impl Fleet {
    /// Refuses what this machine does not have.
    pub(super) fn check_here(&self) -> Result<(), FleetError> {
        if let Some(name) = &self.host.macvlan {
            check_interface(name)?;
        }
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok();
        let online: Option<Cores> = online.and_then(|it| it.trim().parse().ok());
        let is_root = rustix::process::geteuid().is_root();
        for server in &self.server {
            server.check_cores(online.as_ref())?;
            server.check_folders()?;
            server.check_program(is_root)?;
        }
        Ok(())
    }
}

fn check_interface(name: &str) -> Result<(), FleetError> {
    let found = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let names: Vec<String> = found.filter_map(|it| it.file_name().into_string().ok()).collect();
    if names.is_empty() || names.iter().any(|it| it == name) {
        return Ok(());
    }
    let meant = wire::nearest::did_you_mean(name, names.iter().map(String::as_str));
    let what =
        format!("this machine has no network interface `{name}`, but {}{meant}", names.join(", "));
    Err(FleetError::Host { key: "macvlan", what })
}

/// Which of a server's own places a path lies in, below it.
fn own(path: &Path) -> Option<&'static str> {
    let real = path.canonicalize();
    let real = real.as_deref().unwrap_or(path);
    let is_in =
        |it: &&str| [path, real].iter().any(|path| path.starts_with(it) && *path != Path::new(it));
    OWN.iter().copied().find(is_in)
}

impl Server {
    fn check_cores(&self, online: Option<&Cores>) -> Result<(), FleetError> {
        let (Some(cores), Some(online)) = (&self.cpu.cores, online) else { return Ok(()) };
        match cores.0.iter().find(|it| !online.0.contains(it)) {
            None => Ok(()),
            Some(absent) => {
                let what = format!(
                    "this machine has no processor {absent}, but {online}: write some of them, or leave \
                     it out"
                );
                Err(self.wrong("cpu.cores", what))
            }
        }
    }

    /// Folders that it is given, or is to start in.
    fn check_folders(&self) -> Result<(), FleetError> {
        for path in &self.writable {
            if let Some(own) = own(path) {
                let what = format!(
                    "{}: behind wall = \"{}\" {own} is the server's own, and writable as it is: name a \
                     folder of the machine, in /srv say",
                    path.display(),
                    self.wall.word()
                );
                return Err(self.wrong("writable", what));
            }
            if !path.exists() {
                let path = path.display();
                let what = format!("there is no folder {path}: mkdir -p {path}, or leave it out");
                return Err(self.wrong("writable", what));
            }
        }
        let Some(dir) = &self.dir else { return Ok(()) };
        if self.wall >= Wall::Files
            && !dir.starts_with("/run/home")
            && let Some(own) = own(dir)
        {
            return Err(self.hidden("dir", dir, own));
        }
        Ok(())
    }

    fn hidden(&self, key: &'static str, path: &Path, own: &str) -> FleetError {
        let (wall, path) = (self.wall.word(), path.display());
        let what = format!(
            "{path} is not seen behind wall = \"{wall}\": {own} is the server's own there: put it in \
             /opt or /srv"
        );
        self.wrong(key, what)
    }

    /// A program by an absolute path: others are looked for where the server is.
    fn check_program(&self, is_root: bool) -> Result<(), FleetError> {
        let path = self.command.first().map_or(Path::new(""), Path::new);
        if !path.is_absolute() || path.to_string_lossy().contains('{') {
            return Ok(());
        }
        if self.wall >= Wall::Files
            && let Some(own) = own(path)
        {
            return Err(self.hidden("command", path, own));
        }
        // As root a server has a user of its own, which is nobody's friend.
        match path.canonicalize() {
            Ok(real) if is_root => self.check_open(&real),
            // It may be there by the time at which it is started.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Others than its owner may go there and run it.
    fn check_open(&self, real: &Path) -> Result<(), FleetError> {
        let is_open =
            |it: &&Path| it.metadata().map_or(true, |it| it.permissions().mode() & 0o001 != 0);
        let Some(closed) = real.ancestors().find(|it| !is_open(it)) else { return Ok(()) };
        let (real, place) = (real.display(), closed.display());
        let what = if closed.is_dir() {
            format!(
                "{real}: a server runs as a user of its own, who may not go into {place}: put it in /opt \
                 or /srv"
            )
        } else {
            format!(
                "{real}: a server runs as a user of its own, who may not run it: chmod a+rx {real}"
            )
        };
        Err(self.wrong("command", what))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use crate::fleet::{Cores, parse};

    fn refused(more: &str) -> Option<String> {
        let fleet = parse(&format!("[[server]]\nname = 'a'\n{more}\n")).unwrap();
        fleet.check_here().err().map(|it| it.to_string())
    }

    #[test]
    fn what_is_not_here_is_refused_with_its_cure() {
        for (more, parts) in [
            ("command = ['x']\ncpu = { cores = '0,1023' }", &["`cpu.cores`", "processor 1023"][..]),
            ("command = ['x']\n[host]\nmacvlan = 'lp'", &["[host]: `macvlan`", "no network", "lo"]),
            (
                "command = ['x']\nwall = 'files'\nwritable = ['/nowhere/x']",
                &["`writable`: there is no folder /nowhere/x: mkdir -p"],
            ),
            (
                "command = ['x']\nwall = 'files'\nwritable = ['/tmp/x']",
                &["`writable`: /tmp/x: behind wall = \"files\" /tmp is the server's own"],
            ),
            (
                "command = ['/tmp/x']\nwall = 'network'",
                &["`command`: /tmp/x is not seen behind wall = \"network\"", "/opt or /srv"],
            ),
            ("command = ['x']\ndir = '/run/x'\nwall = 'files'", &["`dir`: /run/x is not seen"]),
        ] {
            let error = refused(more).unwrap_or_default();
            for part in parts {
                assert!(error.contains(part), "{more}\n{part}\n{error}");
            }
        }
        for well in [
            "command = ['/bin/sh']\nwall = 'network'\ncpu = { cores = '0' }\n[host]\nmacvlan = 'lo'",
            "command = ['/tmp/throng-nobody-made-this/x']\ndir = '/tmp'",
            "command = ['/nowhere/x']\nwall = 'files'\ndir = '/tmp'\nwritable = ['/srv']",
        ] {
            assert_eq!(refused(well), None, "{well}");
        }
        assert_eq!("0-2,5".parse::<Cores>().unwrap().to_string(), "0,1,2,5");
    }

    #[test]
    fn a_program_where_only_we_may_go_is_refused() {
        let folder = std::env::temp_dir().join(format!("throng-host-here-{}", std::process::id()));
        let program = folder.join("closed/server");
        std::fs::create_dir_all(folder.join("closed")).unwrap();
        std::fs::write(&program, "").unwrap();
        let mode = |path: &std::path::Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(&folder, 0o755);
        mode(&folder.join("closed"), 0o700);
        mode(&program, 0o755);
        let text = format!("[[server]]\nname = 'a'\ncommand = ['{}']\n", program.to_str().unwrap());
        let server = &parse(&text).unwrap().server[0];
        let error = server.check_program(true).unwrap_err().to_string();
        assert!(error.contains("may not go into") && error.contains("/closed: put it"), "{error}");
        mode(&folder.join("closed"), 0o755);
        assert!(server.check_program(true).is_ok());
        mode(&program, 0o700);
        let error = server.check_program(true).unwrap_err().to_string();
        assert!(error.contains("may not run it: chmod a+rx"), "{error}");
        assert!(server.check_program(false).is_ok());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
