use super::*;

#[test]
fn a_request_has_numbers_in_quotes_and_keys_in_base64() {
    let put = PutRequest { key: Blob(b"/a".to_vec()), value: Blob(vec![0, 255]), lease: Int(-7) };
    let txn = TxnRequest {
        compare: vec![Unchanged::since(b"/a".to_vec(), 1 << 60)],
        success: vec![
            Operation::Put(put),
            Operation::Range(RangeRequest::one(b"/b".to_vec())),
            Operation::Delete(DeleteRequest { key: Blob(b"/c".to_vec()) }),
        ],
    };
    let expected =
        r#"{"compare":[{"target":"MOD","key":"L2E=","mod_revision":"1152921504606846976"}],"#
            .to_owned()
            + r#""success":[{"request_put":{"key":"L2E=","value":"AP8=","lease":"-7"}},"#
            + r#"{"request_range":{"key":"L2I="}},{"request_delete_range":{"key":"L2M="}}]}"#;
    assert_eq!(serde_json::to_string(&txn).unwrap(), expected);
}

#[test]
fn answers_are_read_as_etcd_3_4_writes_them() {
    let text =
        br#"{"header":{"cluster_id":"18446744073709551615","member_id":"3319814642761637952",
        "revision":"3","raft_term":"2"},"succeeded":true,"responses":[
        {"response_range":{"header":{"revision":"3"}}},{"response_put":{"header":{"revision":"3"}}},
        {"response_range":{"header":{"revision":"3"},"kvs":[{"key":"L2xlYWZkL3g=",
        "create_revision":"2","mod_revision":"3","version":"2","lease":"77"}],"count":"1"}}]}"#;
    let answer: TxnAnswer = read(text).unwrap();
    assert!(answer.succeeded);
    assert_eq!((answer.header.cluster_id, answer.header.revision), (Int(-1), Int(3)));
    let [empty, put, one] = answer.responses.as_slice() else { panic!("{answer:?}") };
    assert!(empty.response_range.kvs.is_empty() && put.response_range.kvs.is_empty());
    let expected = KeyValue {
        key: Blob(b"/leafd/x".to_vec()),
        value: Blob::default(),
        create_revision: Int(2),
        mod_revision: Int(3),
        version: Int(2),
        lease: Int(77),
    };
    assert_eq!(one.response_range.kvs, [expected]);
}

#[test]
fn what_is_left_out_is_false_0_or_empty() {
    let answer: TxnAnswer = read(b"{}").unwrap();
    assert!(!answer.succeeded && answer.responses.is_empty());
    assert_eq!(answer.header, Header::default());
    // A lease that has ended.
    let answer: Streamed = read(br#"{"result":{"header":{},"ID":"78"}}"#).unwrap();
    assert_eq!(answer.result.unwrap().seconds, Int(0));
    let answer: Streamed = read(br#"{"result":{"header":{},"ID":"78","TTL":"10"}}"#).unwrap();
    assert_eq!(answer.result.unwrap().seconds, Int(10));
}

#[test]
fn numbers_may_come_without_quotes_and_errors_in_either_form() {
    assert_eq!(read::<Int>(b"5"), Ok(Int(5)));
    assert_eq!(read::<Int>(b"\"5\""), Ok(Int(5)));
    assert_eq!(read::<Int>(b"18446744073709551615"), Ok(Int(-1)));
    for text in [
        &br#"{"error":"etcdserver: no leader","code":14}"#[..],
        br#"{"error":"x","message":"etcdserver: no leader","code":14}"#,
        br#"{"code":14,"message":"etcdserver: no leader","details":[]}"#,
    ] {
        let refusal: Refusal = read(text).unwrap();
        assert_eq!((refusal.code, refusal.text()), (14, "etcdserver: no leader"));
    }
}

#[test]
fn a_damaged_answer_is_an_error_that_shows_its_beginning() {
    for text in [
        "",
        "404 page not found",
        "{\"header\":",
        "{\"header\":{\"revision\":\"x\"}}",
        "{\"header\":{\"revision\":\"18446744073709551616\"}}",
        "{\"header\":{\"revision\":1.5}}",
        "{\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":\"%\"}]}}]}",
        "{\"succeeded\":\"yes\"}",
        "{\"responses\":null}",
    ] {
        let error = read::<TxnAnswer>(text.as_bytes()).unwrap_err();
        assert!(error.contains("is not what etcd answers"), "{text}: {error}");
    }
    let long = vec![b'x'; 5000];
    assert!(read::<TxnAnswer>(&long).unwrap_err().len() < 300);
}
