//! What a daemon could leave behind, looked for from outside.

use std::fs;
use std::path::Path;

/// Groups, links and mounts with this tag.
pub(super) fn of(tag: &str) -> Vec<String> {
    let mut found = Vec::new();
    let names = |path: &Path| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|it| it.file_name().into_string().ok()).collect::<Vec<_>>()
    };
    let groups = Path::new("/sys/fs/cgroup");
    let mut folders = vec![groups.to_owned()];
    folders.extend(names(groups).iter().map(|it| groups.join(it)));
    for folder in folders {
        let ours = names(&folder).into_iter().filter(|it| it.starts_with(tag));
        found.extend(ours.map(|it| format!("{}/{it}", folder.display())));
    }
    let links = names(Path::new("/sys/class/net"));
    found.extend(links.into_iter().filter(|it| it.starts_with(tag)));
    found
}

/// Processes that have this text in their command line.
pub(super) fn processes_with(text: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|it| fs::read_to_string(it.path().join("cmdline")).ok());
    lines.filter(|it| it.contains(text)).collect()
}
