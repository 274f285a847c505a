//! Which tables are the server's own: those that the steps of `game::schema` make, found by making
//! them in an empty database, so that no list has to be kept up. Scripts may not write them, and a
//! server that lacks one does not start.

use std::collections::{BTreeMap, BTreeSet};

use game::schema::{Migration, SCHEMA_VERSION};
use rusqlite::Connection;

/// Tables with their columns, and indexes; in lower case: SQL does not tell `Users` from `users`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnTables {
    tables: BTreeMap<String, BTreeSet<String>>,
    indexes: BTreeSet<String>,
}

impl OwnTables {
    /// What the steps make together.
    pub(crate) fn of(steps: &[Migration]) -> Result<Self, rusqlite::Error> {
        // It may be the first connection of all.
        pages::install();
        let conn = Connection::open_in_memory()?;
        conn.execute_batch(SCHEMA_VERSION)?;
        for sql in steps.iter().flat_map(|step| step.sql) {
            conn.execute_batch(sql)?;
        }
        Self::in_database(&conn)
    }

    /// All tables of a database.
    fn in_database(conn: &Connection) -> Result<Self, rusqlite::Error> {
        let mut found = Self::default();
        let mut statement = conn.prepare(
            "SELECT lower(t.name), lower(c.name) FROM sqlite_schema AS t, \
             pragma_table_info(t.name) AS c WHERE t.type = 'table'",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            found.tables.entry(row.get(0)?).or_default().insert(row.get(1)?);
        }
        let mut statement =
            conn.prepare("SELECT lower(name) FROM sqlite_schema WHERE type = 'index'")?;
        found.indexes = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok(found)
    }

    pub(crate) fn has(&self, table: &str) -> bool {
        self.tables.keys().any(|own| own.eq_ignore_ascii_case(table))
    }

    pub(crate) fn has_index(&self, index: &str) -> bool {
        self.indexes.iter().any(|own| own.eq_ignore_ascii_case(index))
    }

    /// What of these a database lacks: `table`, `table.column` or `index`.
    pub(crate) fn missing_in(&self, conn: &Connection) -> Result<Vec<String>, rusqlite::Error> {
        let found = Self::in_database(conn)?;
        let mut missing = Vec::new();
        for (table, columns) in &self.tables {
            match found.tables.get(table) {
                None => missing.push(table.clone()),
                Some(there) => {
                    let lost = columns.difference(there);
                    missing.extend(lost.map(|column| format!("{table}.{column}")));
                }
            }
        }
        missing.extend(self.indexes.difference(&found.indexes).cloned());
        Ok(missing)
    }
}

#[cfg(test)]
mod tests {
    use game::schema::{MIGRATIONS, SECRETS};
    use rusqlite::Connection;

    use super::OwnTables;

    #[test]
    fn the_steps_say_what_is_ours() {
        let own = OwnTables::of(MIGRATIONS).unwrap();
        for table in ["users", "USER_DEVICE", "storage", "schema_version"] {
            assert!(own.has(table), "{table}");
        }
        assert!(own.has_index("Users_Email") && !own.has_index("users"));
        assert!(!own.has("sqlite_schema") && !own.has("of_a_script"));
        for (table, column) in SECRETS {
            assert!(own.tables[*table].contains(*column), "{table}.{column} is not in the schema");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let step = game::schema::Migration {
            version: 1,
            name: "",
            sql: &["CREATE TABLE a (x, y)", "CREATE TABLE b (z)", "CREATE INDEX i ON a (x)"],
        };
        let own = OwnTables::of(&[step]).unwrap();
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch("CREATE TABLE A (X); CREATE TABLE more (v)").unwrap();
        assert_eq!(
            own.missing_in(&conn).unwrap(),
            ["a.y", "b", "schema_version", "i", "sqlite_autoindex_schema_version_1"]
        );
    }
}
