//! Leaf's tables in MySQL and in MariaDB, which differ in the name of the binary collation.

use crate::store::sql::schema::{
    IdentityTable, SchemaDialect, share_tables, witness_table, worker_tables,
};

macro_rules! tables {
    (collation: $collation:literal) => {
        concat!(
            "\
CREATE TABLE IF NOT EXISTS leaf_alloc (
  biz_tag     varchar(128) CHARACTER SET utf8mb4 COLLATE ",
            $collation,
            " NOT NULL DEFAULT '',
  max_id      bigint       NOT NULL DEFAULT 1,
  step        int          NOT NULL,
  description varchar(256)          DEFAULT NULL,
  update_time timestamp    NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (biz_tag)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE IF NOT EXISTS leafd_tombstone (
  biz_tag     varchar(128) CHARACTER SET utf8mb4 COLLATE ",
            $collation,
            " NOT NULL,
  max_id      bigint       NOT NULL,
  deleted     timestamp    NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (biz_tag)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
"
        )
    };
}

/// Leaf's tables in MariaDB.
pub const MARIADB: &str = tables!(collation: "utf8mb4_nopad_bin");

const IDENTITY: IdentityTable = IdentityTable {
    digits: "char(32) CHARACTER SET ascii",
    options: " ENGINE=InnoDB",
    insert: "INSERT IGNORE",
    or_nothing: "",
};

pub(in crate::store) const MYSQL_SCHEMA: SchemaDialect = SchemaDialect {
    name: "mysql",
    title: "MySQL, from 8.0.17 on",
    tables: tables!(collation: "utf8mb4_0900_bin"),
    identity: |identity| IDENTITY.statements(identity),
    workers: worker_tables!(
        name: "varchar(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        path: "varchar(640) CHARACTER SET ascii COLLATE ascii_bin",
        options: " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
    ),
};

pub(in crate::store) const MARIADB_SCHEMA: SchemaDialect = SchemaDialect {
    name: "mariadb",
    title: "MariaDB, from 10.2 on",
    tables: MARIADB,
    ..MYSQL_SCHEMA
};

/// The tables of one of several databases in MariaDB.
pub const MARIADB_SEVERAL: &str = share_tables!(
    tag: "varchar(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin",
    digits: "char(32) CHARACTER SET ascii",
    now: " ON UPDATE CURRENT_TIMESTAMP",
    options: " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
);

pub(in crate::store) const MYSQL_SEVERAL_SCHEMA: SchemaDialect = SchemaDialect {
    name: "mysql-several",
    title: "MySQL, as one of several databases (store.kind = \"several\")",
    tables: share_tables!(
        tag: "varchar(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin",
        digits: "char(32) CHARACTER SET ascii",
        now: " ON UPDATE CURRENT_TIMESTAMP",
        options: " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
    ),
    identity: |_| String::new(),
    workers: "",
};

pub(in crate::store) const MARIADB_SEVERAL_SCHEMA: SchemaDialect = SchemaDialect {
    name: "mariadb-several",
    title: "MariaDB, as one of several databases (store.kind = \"several\")",
    tables: MARIADB_SEVERAL,
    ..MYSQL_SEVERAL_SCHEMA
};

pub(in crate::store) const MYSQL_WITNESS_SCHEMA: SchemaDialect = SchemaDialect {
    name: "mysql-witness",
    title: "MySQL and MariaDB, in addition: the table by which a fleet notices lost leases",
    tables: witness_table!(
        name: "char(32) CHARACTER SET ascii COLLATE ascii_bin",
        options: " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
    ),
    identity: |_| String::new(),
    workers: "",
};

/// The table of Baidu's uid-generator. It names no default for its times, which some servers demand.
pub(in crate::store) const WORKER_NODE_SCHEMA: SchemaDialect = SchemaDialect {
    name: "worker-node",
    title: "MySQL and MariaDB, for worker.registry = \"worker-node\" alone: the table of Baidu's uid-generator",
    tables: "\
CREATE TABLE IF NOT EXISTS WORKER_NODE (
  ID          bigint      NOT NULL AUTO_INCREMENT COMMENT 'auto increment id',
  HOST_NAME   varchar(64) NOT NULL COMMENT 'host name',
  PORT        varchar(64) NOT NULL COMMENT 'port',
  TYPE        int         NOT NULL COMMENT 'node type: CONTAINER(1), ACTUAL(2), FAKE(3)',
  LAUNCH_DATE date        NOT NULL COMMENT 'launch date',
  MODIFIED    timestamp   NOT NULL DEFAULT CURRENT_TIMESTAMP COMMENT 'modified time',
  CREATED     timestamp   NOT NULL DEFAULT CURRENT_TIMESTAMP COMMENT 'created time',
  PRIMARY KEY (ID)
) ENGINE=InnoDB COMMENT='DB WorkerID Assigner for UID Generator';
",
    identity: |_| String::new(),
    workers: "",
};
