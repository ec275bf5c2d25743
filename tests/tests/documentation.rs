//! What is written for people holds together.

use leafd_tests::binaries::workspace;
use leafd_tests::links;

#[test]
fn every_link_of_a_document_leads_to_a_file_and_a_heading() {
    let folder = workspace().canonicalize().unwrap();
    let dead = links::dead(&folder, &links::documents(&folder));
    assert!(dead.is_empty(), "{dead:#?}");
}
