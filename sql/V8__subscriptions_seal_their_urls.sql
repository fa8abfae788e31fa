-- Receivers' URLs may have tokens in their query: they are sealed like secrets.

ALTER TABLE subscriptions ADD COLUMN url_sealed bytea;
COMMENT ON COLUMN subscriptions.url_sealed IS
    'Nonce and AES-256-GCM ciphertext of the URL that deliveries are posted to, bound to agency and subscription (D5); null where it was made before URLs were sealed: then url is the whole.';
COMMENT ON COLUMN subscriptions.url IS
    'Where deliveries are posted, for display: a public HTTPS URL (D27), without the values of its query where url_sealed holds the whole.';
