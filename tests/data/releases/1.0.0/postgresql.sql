CREATE TABLE openrouter_pipe_artifact (
	user_id TEXT NOT NULL, 
	id TEXT NOT NULL, 
	chat_id TEXT DEFAULT '' NOT NULL, 
	message_id TEXT DEFAULT '' NOT NULL, 
	kind TEXT DEFAULT '' NOT NULL, 
	model TEXT DEFAULT '' NOT NULL, 
	key_id TEXT DEFAULT '' NOT NULL, 
	packing INTEGER DEFAULT '0' NOT NULL, 
	payload BYTEA NOT NULL, 
	created BIGINT DEFAULT '0' NOT NULL, 
	last_used BIGINT DEFAULT '0' NOT NULL, 
	PRIMARY KEY (user_id, id)
);
CREATE INDEX ix_openrouter_pipe_artifact_chat_id ON openrouter_pipe_artifact (chat_id);
CREATE INDEX ix_openrouter_pipe_artifact_last_used ON openrouter_pipe_artifact (last_used);
CREATE TABLE openrouter_pipe_audit (
	id TEXT NOT NULL, 
	user_id TEXT DEFAULT '' NOT NULL, 
	chat_id TEXT DEFAULT '' NOT NULL, 
	message_id TEXT DEFAULT '' NOT NULL, 
	model TEXT DEFAULT '' NOT NULL, 
	purpose TEXT NOT NULL, 
	window_tokens BIGINT DEFAULT '0' NOT NULL, 
	budget_tokens BIGINT DEFAULT '0' NOT NULL, 
	limit_tokens BIGINT DEFAULT '0' NOT NULL, 
	tokens_before BIGINT DEFAULT '0' NOT NULL, 
	tokens_sent BIGINT DEFAULT '0' NOT NULL, 
	steps JSON NOT NULL, 
	pruned BOOLEAN DEFAULT '0' NOT NULL, 
	rejected BOOLEAN DEFAULT '0' NOT NULL, 
	input_tokens BIGINT DEFAULT '0' NOT NULL, 
	cached_tokens BIGINT DEFAULT '0' NOT NULL, 
	output_tokens BIGINT DEFAULT '0' NOT NULL, 
	cost DOUBLE PRECISION DEFAULT '0' NOT NULL, 
	input_cost DOUBLE PRECISION DEFAULT '0' NOT NULL, 
	read_cost DOUBLE PRECISION DEFAULT '0' NOT NULL, 
	saved DOUBLE PRECISION DEFAULT '0' NOT NULL, 
	details_omitted BIGINT DEFAULT '0' NOT NULL, 
	failure TEXT DEFAULT '' NOT NULL, 
	created BIGINT DEFAULT '0' NOT NULL, 
	break_position TEXT DEFAULT '' NOT NULL, 
	break_cause TEXT DEFAULT '' NOT NULL, 
	lost_tokens BIGINT DEFAULT '0' NOT NULL, 
	expected_cached_tokens BIGINT DEFAULT '0' NOT NULL, 
	lost_cost DOUBLE PRECISION DEFAULT '0' NOT NULL, 
	provider_cost DOUBLE PRECISION DEFAULT '0' NOT NULL, 
	generation TEXT DEFAULT '' NOT NULL, 
	estimated BOOLEAN DEFAULT '0' NOT NULL, 
	PRIMARY KEY (id)
);
CREATE INDEX ix_openrouter_pipe_audit_chat_id ON openrouter_pipe_audit (chat_id);
CREATE INDEX ix_openrouter_pipe_audit_created ON openrouter_pipe_audit (created);
CREATE INDEX ix_openrouter_pipe_audit_user_id ON openrouter_pipe_audit (user_id);
CREATE TABLE openrouter_pipe_calibration (
	model TEXT NOT NULL, 
	state JSON NOT NULL, 
	updated BIGINT DEFAULT '0' NOT NULL, 
	PRIMARY KEY (model)
);
CREATE TABLE openrouter_pipe_hold (
	account TEXT NOT NULL, 
	id TEXT NOT NULL, 
	amount DOUBLE PRECISION DEFAULT '0' NOT NULL, 
	until BIGINT DEFAULT '0' NOT NULL, 
	estimate TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (account, id)
);
CREATE INDEX ix_openrouter_pipe_hold_id ON openrouter_pipe_hold (id);
CREATE INDEX ix_openrouter_pipe_hold_until ON openrouter_pipe_hold (until);
CREATE TABLE openrouter_pipe_lease (
	name TEXT NOT NULL, 
	holder TEXT DEFAULT '' NOT NULL, 
	until BIGINT DEFAULT '0' NOT NULL, 
	PRIMARY KEY (name)
);
CREATE TABLE openrouter_pipe_ledger (
	user_id TEXT NOT NULL, 
	chat_id TEXT NOT NULL, 
	requests BIGINT DEFAULT '0' NOT NULL, 
	input_tokens BIGINT DEFAULT '0' NOT NULL, 
	cached_tokens BIGINT DEFAULT '0' NOT NULL, 
	output_tokens BIGINT DEFAULT '0' NOT NULL, 
	cost DOUBLE PRECISION DEFAULT '0' NOT NULL, 
	input_cost DOUBLE PRECISION DEFAULT '0' NOT NULL, 
	read_cost DOUBLE PRECISION DEFAULT '0' NOT NULL, 
	saved DOUBLE PRECISION DEFAULT '0' NOT NULL, 
	provider_cost DOUBLE PRECISION DEFAULT '0' NOT NULL, 
	last_used BIGINT DEFAULT '0' NOT NULL, 
	PRIMARY KEY (user_id, chat_id)
);
CREATE INDEX ix_openrouter_pipe_ledger_chat_id ON openrouter_pipe_ledger (chat_id);
CREATE INDEX ix_openrouter_pipe_ledger_last_used ON openrouter_pipe_ledger (last_used);
CREATE TABLE openrouter_pipe_prompt (
	user_id TEXT NOT NULL, 
	chat_id TEXT NOT NULL, 
	model TEXT NOT NULL, 
	key_id TEXT DEFAULT '' NOT NULL, 
	packing INTEGER DEFAULT '0' NOT NULL, 
	payload BYTEA NOT NULL, 
	created BIGINT DEFAULT '0' NOT NULL, 
	last_used BIGINT DEFAULT '0' NOT NULL, 
	PRIMARY KEY (user_id, chat_id, model)
);
CREATE INDEX ix_openrouter_pipe_prompt_chat_id ON openrouter_pipe_prompt (chat_id);
CREATE INDEX ix_openrouter_pipe_prompt_last_used ON openrouter_pipe_prompt (last_used);
CREATE TABLE openrouter_pipe_schema (
	version SERIAL NOT NULL, 
	PRIMARY KEY (version)
);
CREATE TABLE openrouter_pipe_spending (
	account TEXT NOT NULL, 
	day BIGINT NOT NULL, 
	cost DOUBLE PRECISION DEFAULT '0' NOT NULL, 
	provider_cost DOUBLE PRECISION DEFAULT '0' NOT NULL, 
	PRIMARY KEY (account, day)
);
CREATE TABLE openrouter_pipe_summary (
	user_id TEXT NOT NULL, 
	start_chain TEXT NOT NULL, 
	end_chain TEXT NOT NULL, 
	turns BIGINT DEFAULT '0' NOT NULL, 
	chat_id TEXT DEFAULT '' NOT NULL, 
	model TEXT DEFAULT '' NOT NULL, 
	key_id TEXT DEFAULT '' NOT NULL, 
	packing INTEGER DEFAULT '0' NOT NULL, 
	payload BYTEA NOT NULL, 
	source_tokens BIGINT DEFAULT '0' NOT NULL, 
	created BIGINT DEFAULT '0' NOT NULL, 
	last_used BIGINT DEFAULT '0' NOT NULL, 
	PRIMARY KEY (user_id, start_chain, end_chain)
);
CREATE INDEX ix_openrouter_pipe_summary_chat_id ON openrouter_pipe_summary (chat_id);
CREATE INDEX ix_openrouter_pipe_summary_last_used ON openrouter_pipe_summary (last_used);
CREATE TABLE openrouter_pipe_usage (
	account TEXT NOT NULL, 
	quarter BIGINT NOT NULL, 
	model TEXT NOT NULL, 
	failure TEXT NOT NULL, 
	requests BIGINT DEFAULT '0' NOT NULL, 
	input_tokens BIGINT DEFAULT '0' NOT NULL, 
	cached_tokens BIGINT DEFAULT '0' NOT NULL, 
	output_tokens BIGINT DEFAULT '0' NOT NULL, 
	cost DOUBLE PRECISION DEFAULT '0' NOT NULL, 
	input_cost DOUBLE PRECISION DEFAULT '0' NOT NULL, 
	read_cost DOUBLE PRECISION DEFAULT '0' NOT NULL, 
	saved DOUBLE PRECISION DEFAULT '0' NOT NULL, 
	provider_cost DOUBLE PRECISION DEFAULT '0' NOT NULL, 
	PRIMARY KEY (account, quarter, model, failure)
);
CREATE INDEX ix_openrouter_pipe_usage_quarter ON openrouter_pipe_usage (quarter);
