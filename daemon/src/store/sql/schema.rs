//! Leaf's table in each dialect. Its names and types are Leaf's, so that Java Leaf works on it; the
//! collation is such that tags which differ in a byte are two tags. Beside it is a table of leafd's
//! own, which Java Leaf does not touch: where deleted tags ended.

use crate::state::database::DatabaseIdentity;
use crate::store::ServerKind;

/// SQLite; leafd makes it itself.
pub const SQLITE: &str = "\
CREATE TABLE IF NOT EXISTS leaf_alloc (
  biz_tag     varchar(128) NOT NULL DEFAULT '' PRIMARY KEY,
  max_id      bigint       NOT NULL DEFAULT 1,
  step        int          NOT NULL,
  description varchar(256)          DEFAULT NULL,
  update_time timestamp    NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE TABLE IF NOT EXISTS leafd_tombstone (
  biz_tag     varchar(128) NOT NULL PRIMARY KEY,
  max_id      bigint       NOT NULL,
  deleted     timestamp    NOT NULL DEFAULT CURRENT_TIMESTAMP
);
";

/// Which database this is, and in which file it was made; SQLite alone.
pub const SQLITE_IDENTITY: &str = "\
CREATE TABLE IF NOT EXISTS leafd_identity (
  only_row integer NOT NULL PRIMARY KEY CHECK (only_row = 1),
  identity text    NOT NULL,
  file     text    NOT NULL
);
";

/// Which database this is, with an identity of its own. Executed again, it changes nothing.
#[must_use]
pub fn shared_identity(server: ServerKind, identity: DatabaseIdentity) -> String {
    let (text, engine) = match server {
        ServerKind::MySql => ("char(32) CHARACTER SET ascii", " ENGINE=InnoDB"),
        ServerKind::Postgres => ("char(32)", ""),
    };
    let (insert, or_nothing) = match server {
        ServerKind::MySql => ("INSERT IGNORE", ""),
        ServerKind::Postgres => ("INSERT", " ON CONFLICT DO NOTHING"),
    };
    format!(
        "-- The identity is this database's alone: in a script that several databases run (migrations),
-- give each its own value.
CREATE TABLE IF NOT EXISTS leafd_identity (
  only_row int NOT NULL PRIMARY KEY CHECK (only_row = 1),
  identity {text} NOT NULL
){engine};
{insert} INTO leafd_identity (only_row, identity) VALUES (1, '{identity}'){or_nothing};
"
    )
}

/// MySQL from 8.0.17 on.
pub const MYSQL: &str = "\
CREATE TABLE IF NOT EXISTS leaf_alloc (
  biz_tag     varchar(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin NOT NULL DEFAULT '',
  max_id      bigint       NOT NULL DEFAULT 1,
  step        int          NOT NULL,
  description varchar(256)          DEFAULT NULL,
  update_time timestamp    NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (biz_tag)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE IF NOT EXISTS leafd_tombstone (
  biz_tag     varchar(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin NOT NULL,
  max_id      bigint       NOT NULL,
  deleted     timestamp    NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (biz_tag)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
";

/// MariaDB from 10.2 on.
pub const MARIADB: &str = "\
CREATE TABLE IF NOT EXISTS leaf_alloc (
  biz_tag     varchar(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL DEFAULT '',
  max_id      bigint       NOT NULL DEFAULT 1,
  step        int          NOT NULL,
  description varchar(256)          DEFAULT NULL,
  update_time timestamp    NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (biz_tag)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE IF NOT EXISTS leafd_tombstone (
  biz_tag     varchar(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL,
  max_id      bigint       NOT NULL,
  deleted     timestamp    NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (biz_tag)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
";

/// PostgreSQL; leafd writes `update_time` itself.
pub const POSTGRES: &str = "\
CREATE TABLE IF NOT EXISTS leaf_alloc (
  biz_tag     varchar(128) COLLATE \"C\" NOT NULL DEFAULT '' PRIMARY KEY,
  max_id      bigint       NOT NULL DEFAULT 1,
  step        int          NOT NULL,
  description varchar(256)          DEFAULT NULL,
  update_time timestamp    NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE TABLE IF NOT EXISTS leafd_tombstone (
  biz_tag     varchar(128) COLLATE \"C\" NOT NULL PRIMARY KEY,
  max_id      bigint       NOT NULL,
  deleted     timestamp    NOT NULL DEFAULT CURRENT_TIMESTAMP
);
";
