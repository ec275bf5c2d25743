//! Worker IDs from the table `WORKER_NODE` of Baidu's uid-generator, in MySQL or MariaDB: a row for each start
//! of an instance, whose number is the worker ID. [`assignee`] decides, and [`table`] asks the database: see
//! [decision 044](../../../../../docs/decisions/044-baidus-worker-node.md).

pub(crate) mod assignee;
pub(crate) mod messages;
pub(crate) mod pace;
mod table;

pub(crate) use table::{WorkerNodeAccess, WorkerNodeTable};
