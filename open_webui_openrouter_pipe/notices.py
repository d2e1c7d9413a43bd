"""The words that users see, status lines and error lines, by name; and how they are said in the user's language.

Owns the English texts; `languages` has the others. `notice` returns a `Line`: a text in English, for logs and for what
a model reads, that keeps its name and values, so that `in_language` can say it in another language where it leaves for
the user. It must not decide when a line is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from string import Formatter
from types import MappingProxyType
from typing import Any, Final, Self, TypeAlias

from .languages.chinese import CHINESE
from .languages.french import FRENCH
from .languages.german import GERMAN
from .languages.japanese import JAPANESE
from .languages.language import Language
from .languages.portuguese import PORTUGUESE
from .languages.spanish import SPANISH

_ENGLISH: Final[Mapping[str, str]] = MappingProxyType(
    {
        # responses: what arrives from OpenRouter
        "unreadable_event": "OpenRouter sent something that is not part of an answer. Please try again.",
        # lines of lines, and values
        "joined": "{lines:{separator}}",
        "sentences": "{first} {second}",
        "list_item": "- {line}",
        "dollars": "${amount:,.{decimals}f}",
        "part_instructions": "instructions",
        "part_tools": "tools",
        "part_summaries": "summaries",
        "part_retrieved_text": "retrieved text",
        "part_note": "note on omitted turns",
        "part_latest_message": "latest message",
        "part_current_tool_calls": "current tool calls",
        "part_earlier_turns": "earlier turns",
        "period_day": "a day",
        "period_month": "a month",
        "resets_daily": "daily",
        "resets_weekly": "weekly",
        "resets_monthly": "monthly",
        "the_image": "The image",
        "the_audio": "The recording",
        "the_video": "The video",
        "the_file": "The file",
        # engine: a turn and its rounds
        "unexpected_error": "The pipe met an unexpected error; the server's log has the details.",
        "reasoning_rejected": "The provider did not accept the earlier reasoning; answering without it.",
        "context_shortened": "The provider counted more tokens than fit into its window.",
        "answer_not_saved": "Parts of this answer could not be saved; later turns continue without its reasoning.",
        "answer_at_output_limit": (
            "The answer stopped at the output limit. Press Continue Response, or raise max_tokens."
        ),
        "answer_at_output_limit.no_button": (
            "The answer stopped at the output limit. Ask the model to go on, or raise max_tokens."
        ),
        "answer_filtered": "The provider's content filter stopped the answer.",
        "answer_cut_off": "The provider cut the answer off. Press Continue Response to have the rest.",
        "answer_cut_off.no_button": "The provider cut the answer off. Ask the model to go on.",
        "answer_empty": "The model ended its turn without an answer. Ask again, or choose another model.",
        "no_encryption_key": (
            "Reasoning and tool results are not kept, because there is no key to encrypt them with. An administrator "
            "can set the function's valve ARTIFACT_ENCRYPTION_KEY."
        ),
        # media
        "attachment_not_stored": (
            "The picture could not be stored among Open WebUI's files ({reason}); it is kept in the chat itself."
        ),
        "attachment_damaged": "it is damaged",
        "attachment_storage_failed": "the storage failed, and the server's log has the details",
        "attachment_not_a_picture": (
            "The model sent a picture of a kind that is not shown; PNG, JPEG, WebP and GIF are."
        ),
        # engine: stored items that could not be reloaded
        "artifacts_unavailable": "{count} stored items could not be reloaded: the database is unavailable.",
        "artifacts_unavailable.one": "{count} stored item could not be reloaded: the database is unavailable.",
        "artifacts_missing": "{count} stored items could not be reloaded ({details}).",
        "artifacts_missing.one": "{count} stored item could not be reloaded ({details}).",
        "artifacts_not_found": "{count} no longer stored",
        "artifacts_unreadable": "{count} encrypted with another key, or damaged",
        "artifacts_too_large": "{count} over the size limit",
        # media: attachments of the chat
        "reading_attachments": "Reading the attachments of this chat...",
        "attachments_read": "The attachments are read.",
        "attachments_unread_image": "{count} images were not sent: this model does not read images.",
        "attachments_unread_image.one": "{count} image was not sent: this model does not read images.",
        "attachments_unread_audio": "{count} recordings were not sent: this model does not read audio.",
        "attachments_unread_audio.one": "{count} recording was not sent: this model does not read audio.",
        "attachments_unread_video": "{count} videos were not sent: this model does not read video.",
        "attachments_unread_video.one": "{count} video was not sent: this model does not read video.",
        "images_omitted": "{count} earlier images are no longer shown to the model.",
        "images_omitted.one": "{count} earlier image is no longer shown to the model.",
        "images_too_many": "{count} images were not sent: a request holds at most {limit}.",
        "images_too_many.one": "{count} image was not sent: a request holds at most {limit}.",
        "too_many_images": "a request holds at most {limit} images",
        "attachments_omitted": (
            "{count} earlier attachments are no longer sent: all together are larger than {megabytes:,.0f} MB."
        ),
        "attachments_omitted.one": (
            "{count} earlier attachment is no longer sent: all together are larger than {megabytes:,.0f} MB."
        ),
        "attachments_too_large": (
            "{count} attachments were not sent: all together are larger than {megabytes:,.0f} MB."
        ),
        "attachments_too_large.one": (
            "{count} attachment was not sent: all together are larger than {megabytes:,.0f} MB."
        ),
        "too_large_together": "all together are larger than {megabytes:,.0f} MB",
        "attachment_not_sent": "{name} was not sent: {reason}.",
        "attachment_kind": "this model does not read files of the type {kind}",
        "attachment_unknown": "its type is not known",
        "attachment_unreadable": "it cannot be read",
        "attachment_too_large": "it is larger than {megabytes:,.0f} MB",
        "document_as_excerpts": "{name} reaches this model in excerpts by Open WebUI: {reason}.",
        # openrouter
        "no_api_key": "No OpenRouter API key is set. An administrator can set the function's valve API_KEY.",
        "no_api_key.admin": (
            "No OpenRouter API key is set. Enter one in the function's valve API_KEY; "
            "https://openrouter.ai/settings/keys has yours."
        ),
        "unusable_key": (
            "The OpenRouter API key has characters that no key has. An administrator can correct the function's "
            "valve API_KEY."
        ),
        "unusable_address": (
            "OpenRouter's address is not usable. An administrator can correct the function's valve BASE_URL."
        ),
        "not_openrouter": (
            "The server at OpenRouter's address is not OpenRouter, or it is out of order. An administrator can check "
            "the function's valve BASE_URL."
        ),
        "unreachable": (
            "OpenRouter could not be reached: this server's connection, or OpenRouter itself, is down. Please try "
            "again in a minute."
        ),
        "unreachable.admin": (
            "OpenRouter could not be reached: this server's connection, or OpenRouter itself, is down. If it lasts, "
            "check the server's network and proxy, the function's valve BASE_URL and https://status.openrouter.ai."
        ),
        "no_response": (
            "OpenRouter did not answer within {seconds:.0f} seconds. Please try again, or choose another model."
        ),
        "no_response.admin": (
            "OpenRouter did not answer within {seconds:.0f} seconds. Please try again, or choose another model; the "
            "function's valve ADVANCED may say how long to wait (REQUEST_TIMEOUT_SECONDS)."
        ),
        "stream_silent": (
            "OpenRouter sent nothing for {seconds:.0f} seconds, so the answer ends here. Please try again."
        ),
        "stream_lost": "The connection to OpenRouter was lost during the answer. Please try again.",
        "stream_incomplete": "OpenRouter ended the answer before it was complete. Please try again.",
        "wait_unknown": "Please wait a little and try again",
        "wait_over": "Please try again now",
        "wait_seconds": "Please try again in {count} seconds",
        "wait_seconds.one": "Please try again in {count} second",
        "wait_minutes": "Please try again in about {count} minutes",
        "wait_tomorrow": "Please try again tomorrow",
        "wait_hours": "Please try again in about {count} hours",
        "quote": 'It said: "{text}"',
        "a_provider": "The provider",
        "the_provider": "The provider {name}",
        "reasoning_not_accepted": (
            "The provider did not accept the earlier reasoning of this chat. Please try again."
        ),
        "too_long": (
            "The conversation is too long for this model. Shorten it or choose a model with a larger window."
        ),
        "too_long_numbers": (
            "The conversation is too long for this model ({requested:,} tokens, the model takes {limit:,}). "
            "Shorten it or choose a model with a larger window."
        ),
        "provider_unavailable": "{provider} is not available at the moment. {wait}, or choose another model.",
        "provider_overloaded": "{provider} is overloaded at the moment. {wait}, or choose another model.",
        "provider_slow": "{provider} took too long to answer. {wait}, or choose a faster model.",
        "provider_busy": (
            "{provider} is receiving too many requests at the moment. {wait}, or choose another model."
        ),
        "provider_busy.admin": (
            "{provider} is receiving too many requests at the moment. {wait}, or choose another model. If it happens "
            "often, more credits, a key of the provider's own at OpenRouter or fallback models help. {quote}"
        ),
        "free_daily_limit": (
            "The daily limit of OpenRouter's free models is reached. {wait}, or choose a paid model."
        ),
        "free_daily_limit.admin": (
            "The daily limit of OpenRouter's free models is reached. {wait}, or choose a paid model; credits at "
            "https://openrouter.ai/settings/credits raise the limit."
        ),
        "free_limit": (
            "The limit of OpenRouter's free models for each minute is reached. {wait}, or choose a paid model."
        ),
        "model_not_found": "OpenRouter does not know this model. Please choose another one.",
        "model_deprecated": "OpenRouter no longer offers this model. Please choose another one.",
        "free_variant_ended": "The free variant of this model has ended. Choose the paid one or another model.",
        "region_restricted": "This model is not offered in your region. Please choose another one.",
        "privacy_restricted": (
            "No provider of this model meets the account's privacy settings. Please choose another model."
        ),
        "privacy_restricted.admin": (
            "No provider of this model meets the account's privacy settings. Choose another model, or change them at "
            "https://openrouter.ai/settings/privacy."
        ),
        "constraint_filtered": (
            "No provider of this model meets the request's requirements. Please choose another model."
        ),
        "constraint_filtered.admin": (
            "No provider of this model meets the request's requirements. Choose another model, or loosen the model's "
            "provider settings."
        ),
        "no_endpoint": "No provider of this model can serve this request. {quote}",
        "no_tool_provider": (
            "No provider of this model supports tools. Switch the tools off or choose another model."
        ),
        "no_attachment_provider": (
            "No provider of this model reads this kind of attachment. Remove it or choose another model."
        ),
        "no_allowed_provider": (
            "This model is not available with the settings of this server. Please choose another model."
        ),
        "no_allowed_provider.admin": (
            "The provider settings exclude all providers of this model. Choose another model, or loosen the settings "
            "of the model or of the OpenRouter account."
        ),
        "moderated": "The message was refused by moderation. Please rephrase it or choose another model.",
        "moderated_reasons": (
            "The message was refused by moderation ({reasons}). Please rephrase it or choose another model."
        ),
        "key_rejected": (
            "OpenRouter did not accept the API key of this server. Please tell your administrator."
        ),
        "key_rejected.admin": (
            "OpenRouter did not accept the API key. Check the function's valve API_KEY: "
            "https://openrouter.ai/settings/keys has the valid ones."
        ),
        "no_credits": (
            "The OpenRouter account has too few credits for this request. Please tell your administrator; a shorter "
            "answer or a cheaper model may still be possible."
        ),
        "no_credits.admin": (
            "The OpenRouter account has too few credits for this request. Add some at "
            "https://openrouter.ai/settings/credits, or lower max_tokens."
        ),
        "no_credits_numbers": (
            "The OpenRouter account has too few credits for this request (up to {requested:,} tokens were requested, "
            "{affordable:,} can be paid for). Please tell your administrator; a shorter answer or a cheaper model may "
            "still be possible."
        ),
        "no_credits_numbers.admin": (
            "The OpenRouter account has too few credits for this request (up to {requested:,} tokens were requested, "
            "{affordable:,} can be paid for). Add some at https://openrouter.ai/settings/credits, or lower max_tokens."
        ),
        "access_denied": (
            "OpenRouter refused access to this request. Please choose another model, or tell your administrator. "
            "{quote}"
        ),
        "access_denied.admin": (
            "OpenRouter refused access to this request. Check the account's guardrails and the key's permissions at "
            "https://openrouter.ai/settings. {quote}"
        ),
        "request_too_large": (
            "The request is too large to send. Remove or shrink attachments, or start a new chat."
        ),
        "request_rejected": (
            "The provider rejected the request; sending it again unchanged will not help. Change it or choose "
            "another model. {quote}"
        ),
        "provider_error": (
            "OpenRouter answered with an error. Please try again, or choose another model. {quote}"
        ),
        # openrouter: further failures, the tries, and the breaker
        "key_limit_reached": (
            "The spending limit of this server's OpenRouter key is reached. Please tell your administrator."
        ),
        "key_limit_reached.admin": (
            "The spending limit of the OpenRouter key is reached. Raise it at https://openrouter.ai/settings/keys."
        ),
        "image_unusable": (
            "The provider cannot use an image of this chat. Remove it, or attach it in another format or size. "
            "{quote}"
        ),
        "output_too_long": (
            "The request asks for a longer answer than the model can write. Lower max_tokens. {quote}"
        ),
        "model_refused": "The model refused to answer. Please rephrase the message or choose another model.",
        "data_residency": (
            "The account's rules on where data may be processed exclude this model. Please choose another model."
        ),
        "data_residency.admin": (
            "The account's rules on where data may be processed exclude this model. Choose another model, or change "
            "them at https://openrouter.ai/settings/privacy."
        ),
        "effort_rejected": "The model does not know this reasoning effort. Choose another one. {quote}",
        "parameter_rejected": (
            "The model does not take one of the request's parameters. Remove it from the chat's controls. {quote}"
        ),
        "effort_replaced": (
            "The model does not know the reasoning effort `{asked}`; asked again with `{used}`."
        ),
        "effort_omitted": "The model does not know the reasoning effort `{asked}`; asked again without it.",
        "parameter_omitted": "The model does not take the parameter {name}; asked again without it.",
        "retry_busy": "The provider is busy; trying again in {seconds} s ({attempt} of {attempts})...",
        "retry_unavailable": (
            "The provider is not available; trying again in {seconds} s ({attempt} of {attempts})..."
        ),
        "retry_unreachable": (
            "OpenRouter cannot be reached; trying again in {seconds} s ({attempt} of {attempts})..."
        ),
        "retry_lost": "OpenRouter's answer broke off; trying again in {seconds} s ({attempt} of {attempts})...",
        "retrying": "Asked again ({attempt} of {attempts}).",
        "address_paused": (
            "OpenRouter cannot be reached at the moment. The next try is in {seconds:.0f} seconds; please wait until "
            "then."
        ),
        "address_paused.admin": (
            "OpenRouter could not be reached {failures} times in a row. The next try is in {seconds:.0f} seconds. If "
            "it lasts, check the server's network and proxy, the function's valve BASE_URL and "
            "https://status.openrouter.ai."
        ),
        # engine: running requests, and where an error is found in the log
        "waiting_for_place": "Many requests are running at the moment; this one waits for its turn...",
        "place_found": "The wait is over.",
        "queue_full": "This server is busy: too many requests are waiting. Please try again in a minute.",
        "queue_full.admin": (
            "Too many requests are waiting on this server. The function's valve ADVANCED may say how "
            "many run (MAX_REQUESTS, MAX_REQUESTS_PER_USER)."
        ),
        "queue_slow": (
            "This server is busy: the request has waited {seconds:.0f} seconds for others to end. Please try again "
            "later."
        ),
        "queue_slow.admin": (
            "The request has waited {seconds:.0f} seconds for others to end. The function's valve ADVANCED may say how "
            "many run (MAX_REQUESTS, MAX_REQUESTS_PER_USER)."
        ),
        "with_reference": "{line} (reference {reference})",
        # openrouter: what users and administrators switch
        "no_provider_left": (
            "The model's provider settings and those of the administrator exclude each other, so that no provider is "
            "left. Choose another model; an administrator can loosen the settings."
        ),
        "own_key_rejected": (
            "OpenRouter did not accept your own API key. Correct or remove it in your valves (Controls → Valves)."
        ),
        "own_key_without_credits": (
            "Your own OpenRouter account has too few credits for this request. Add some at "
            "https://openrouter.ai/settings/credits, or remove your API key in your valves (Controls → Valves)."
        ),
        "own_key_unreadable": (
            "Your own API key cannot be read: it was encrypted for another user, or the server's secret key has "
            "changed. Enter it again, or remove it, in your valves (Controls → Valves)."
        ),
        "search_keeps_data": (
            "The web is not searched: with zero data retention only the model's own provider may do it, and this one "
            "has no search."
        ),
        "searching": "Searching the web...",
        "searched": "Searched the web.",
        "searched_for": "Searched the web for: {query}",
        "search_failed": "The search did not succeed.",
        "reading_page": "Reading a web page...",
        "page_read": "Read {url}",
        # openrouter: names in the list of models
        "model_expires": "{name} (until {date})",
        "model_variant": "{name} ({variant})",
        "model_preset": "{name} (preset {preset})",
        "preset": "Preset: {preset}",
        # openrouter: the entry that says why there are no models, and its answers
        "status_entry": "OpenRouter: {status}",
        "status_ready": "ready",
        "status_ready_advice": "Everything is in order. Choose one of the models.",
        "status_no_key": "no API key yet (set API_KEY in the valves)",
        "status_no_key_advice": (
            "No API key is set. Create one at https://openrouter.ai/settings/keys. Set it as `API_KEY` under Admin "
            "Panel → Functions → the gear of this function, or as the server's environment variable "
            "`OPENROUTER_API_KEY`."
        ),
        "status_key_unusable": "wrong API_KEY (it has characters that no key has)",
        "status_key_unusable_advice": (
            "`API_KEY` in the valves has characters that no key has. Copy the key again, whole and without quotation "
            "marks."
        ),
        "status_key_refused": "key refused (check API_KEY in the valves)",
        "status_key_refused_advice": (
            "OpenRouter refuses the API key: it is mistyped, disabled or deleted. Check it at "
            "https://openrouter.ai/settings/keys, and set `API_KEY` in the valves anew."
        ),
        "status_key_used_up": "key used up (nothing is left of its limit)",
        "status_key_used_up_advice": (
            "Nothing is left of the API key's limit. Raise it at https://openrouter.ai/settings/keys, or set another "
            "key."
        ),
        "status_address": "wrong BASE_URL (it is not an address)",
        "status_address_advice": (
            "`BASE_URL` in the valves is not an address: it begins with https:// or http:// and a server's name. Its "
            "default is https://openrouter.ai/api/v1."
        ),
        "status_not_openrouter": "wrong BASE_URL (OpenRouter's API is not there)",
        "status_not_openrouter_advice": (
            "What answers at `BASE_URL` in the valves has no list of models, so it is not OpenRouter's API. The "
            "default is https://openrouter.ai/api/v1; the whole path is needed."
        ),
        "status_unreachable": "unreachable since {since}",
        "status_unreachable_advice": (
            "OpenRouter cannot be reached since {since}. Check `BASE_URL` in the valves, and whether this server may "
            "connect to it: network, DNS, proxy, firewall. The server's log has the details. It is tried again by "
            "itself."
        ),
        "status_failing": "errors since {since}",
        "status_failing_advice": (
            "OpenRouter answers with errors since {since}. The server's log has the details, and "
            "https://status.openrouter.ai says whether there is an outage. It is tried again by itself."
        ),
        "status_loading": "still loading (the list of models is on its way)",
        "status_loading_advice": "The list of models is on its way. Reload the page in a moment.",
        "status_unmatched": "no model matches MODELS in the valves",
        "status_unmatched_advice": (
            "No model matches the patterns of `MODELS` in the valves; `*` offers every model."
        ),
        "status_filtered": "filters leave nothing (see MODEL_FILTERS in the valves)",
        "status_filtered_advice": (
            "Of the models that `MODELS` in the valves offers, none fulfils all of `MODEL_FILTERS`."
        ),
        "status_unknown_filter": "wrong MODEL_FILTERS (unknown: {words})",
        "status_unknown_filter_advice": (
            "`MODEL_FILTERS` in the valves has unknown words, and no model is offered until it is corrected: {words}. "
            "It takes `free`, `tools`, `vision`, `zdr`, `newest`, `no-expiring`, `context>=128k` and `price<=2`, "
            "separated by commas."
        ),
        "status_zdr_unknown": "no zdr list yet (see MODEL_FILTERS in the valves)",
        "status_zdr_unknown_advice": (
            "Which models keep no data is not known yet. With `zdr` in `MODEL_FILTERS` no model is offered until "
            "OpenRouter's list of them has been read; the server's log says why it could not be. It is tried again by "
            "itself."
        ),
        "status_unknown_variant": "wrong VARIANTS (unknown: {words})",
        "status_unknown_variant_advice": (
            "`VARIANTS` in `ADVANCED` has entries that are not variants: {words}. It takes patterns with a variant or "
            "a preset, such as `openai/gpt-5*:nitro`, `anthropic/*@preset/team` or `@preset/team`. The others are "
            "offered."
        ),
        "status_models": "{count:,} models are offered.",
        "status_models.one": "{count:,} model is offered.",
        "status_for_users_ready": "OpenRouter is ready. Choose one of its models.",
        "status_for_users_wait": "OpenRouter cannot be used at the moment. Please try again in a few minutes.",
        "status_for_users_ask": (
            "OpenRouter cannot be used at present. An administrator has to set it up; please ask one."
        ),
        "key_used": "The API key has used ${total:,.2f}: ${month:,.2f} this month, ${today:,.2f} today.",
        "key_limit": "Its limit is ${limit:,.2f}; ${remaining:,.2f} are left.",
        "key_limit_resets": "Its limit is ${limit:,.2f} ({period}); ${remaining:,.2f} are left.",
        "key_without_limit": "It has no limit of its own; the account's credits limit it.",
        "key_free_tier": (
            "No credits have been bought yet: only free models can be used, with few requests a day. Credits are at "
            "https://openrouter.ai/settings/credits."
        ),
        "key_expires": "It expires at {time}.",
        # host
        "no_messages": "This request has no readable messages.",
        "no_model": "This request names no model.",
        "parameters_omitted": (
            "Omitted from your requests, since the administrator does not allow users to set it: {names}."
        ),
        # media: why something at an address cannot be had
        "download_address_refused": "the address is not allowed",
        "download_unreachable": "the server could not be reached",
        "download_refused": "the server answered with the status {status}",
        "download_broken": "the connection was lost",
        "download_compressed": "the server sent it compressed",
        "download_redirects": "the address redirects too often",
        "download_too_slow": "it took longer than {seconds:,.0f} seconds",
        "file_not_found": "there is no such file, or you may not read it",
        "file_content_missing": "Open WebUI's storage no longer has its content",
        "file_unreadable": "Open WebUI's storage could not be read",
        "file_not_stored": "Open WebUI's storage did not accept the file",
        # what may be spent
        "limits_unreadable": (
            "No chats are possible: an administrator has to correct the function's valve SPENDING_LIMITS, of which "
            "this part cannot be read: {part}"
        ),
        "limits_unreadable_admin": (
            "Users cannot chat, because this part of the function's valve SPENDING_LIMITS cannot be read: {part}"
        ),
        "limits_unavailable": (
            "Nothing was sent: the spending limits cannot be checked, because the database is unavailable. "
            "Please try again."
        ),
        "limit_reached": "{whose} of {amount} {period} is used up, until {when}. Nothing was sent.",
        "limit_near": (
            "{whose} of {amount} {period} is nearly used up, until {when}: long chats are shortened, to cost less."
        ),
        "limit_in_use": (
            "Nothing was sent: what is left of the spending limit is in use by other requests. "
            "Please try again when they are answered."
        ),
        "task_of_declined": "Not sent: the message of this chat was not sent either.",
        "limit_waiting": "Waiting for other answers, since little is left of the spending limit...",
        "limit_of_user": "Your spending limit",
        "limit_of_group": "The spending limit of the group {group}",
        "limit_of_all": "The spending limit of all users",
        # questions about a price, and the status line of an answer
        "confirm_title": "Send this for about {cost}?",
        "confirm_cost": (
            "The model reads about {tokens:,} tokens for this message, none of them from the provider's cache. That "
            "costs about {cost}; the answer comes on top. Cancel sends nothing and costs nothing."
        ),
        "confirm_cost_cached": (
            "The model reads about {tokens:,} tokens for this message, {cached:,} of them from the provider's cache. "
            "That costs about {cost}; the answer comes on top. Cancel sends nothing and costs nothing."
        ),
        "confirm_switch": (
            "{earlier} still has this chat in its cache: there, this message costs about {cached}. {model} has to read "
            "all of it for about {cost}; the answer comes on top. Cancel sends nothing and costs nothing."
        ),
        "declined": "Not sent: you did not agree to about {cost}. Nothing was charged.",
        "cost_line": "{line}",
        "cost_input": "{tokens:,} tokens in",
        "cost_input_cached": "{tokens:,} tokens in ({cached:,} cached)",
        "cost_output": "{tokens:,} out",
        "cost_seconds": "{seconds:,.1f} s",
        "cost_speed": "{speed:,.0f} tok/s",
        "next_cost": "next message from {cost}",
        "next_cost_until": "next message from {cached} ({cold} after {when})",
        "tomorrow_at": "tomorrow at {clock}",
        "on_day_at": "{day} at {clock}",
        # settings
        "reasoning_disabled": (
            "Reasoning is not kept: the administrator has switched it off, whatever your own setting says."
        ),
        "user_limits_not_followed": (
            "Some of your own settings have no effect, since the administrator does not let users set them: {names}."
        ),
        "user_valves_lost": (
            "Nothing was sent, because some of your own settings cannot be read, among them who may keep or pay for "
            "your chats: {names}. Set them again in your valves (Controls → Valves), and save."
        ),
        "user_valves_unreadable": (
            "Some of your own settings cannot be read and have no effect: {names}. Set them again in your valves "
            "(Controls → Valves)."
        ),
        "valves_not_saved": "Not saved. {problems}.",
        "valves_lost": (
            "Nothing was sent, because settings that protect chats or limit what they cost cannot be read: {names}. An "
            "administrator has to set them again in the function's valves."
        ),
        # summaries: why one could not be written, as the end of "not_summarized" and "summarized_partly"
        "summary_failure_empty": "the model's answer was empty",
        "summary_failure_malformed": "the model's answer did not have the expected form",
        "summary_failure_longer_than_its_source": "the summary was longer than what it summarizes",
        "summary_failure_repeats_its_prompt": "the model repeated its instructions",
        "summary_failure_cut_off": "the model's answer was cut off",
        "summary_failure_calls_a_tool": "the model called a tool",
        "summary_failure_reasoning_only": "the model only reasoned and did not answer",
        "summary_failure_refused": "the model refused",
        "summary_failure_not_grounded": "the summary contained details that are not in the chat",
        "summary_failure_no_content": "the model's answer said nothing",
        "summary_failure_too_short": "the summary was too short",
        "summary_failure_not_about_its_source": "the summary was not about the chat",
        "summary_failure_timed_out": "the model took too long",
        "summary_failure_claimed_elsewhere": "another server process is already doing it",
        "summary_failure_database_unavailable": "the database is unavailable",
        "summary_failure_provider": "the provider answered with an error",
        "summary_failure_unexpected_error": "unexpected error",
        # planning: a chat fitted into the window
        "window_too_small": "The model's window of {window_tokens:,} tokens leaves no room for any input.",
        "window_too_small_advice": "Choose a model with a larger window.",
        "overflow": (
            "This request needs about {needed_tokens:,} tokens, but only {limit_tokens:,} fit beside the answer into "
            "the model's window of {window_tokens:,}."
        ),
        "overflow_largest": "The largest part that you can change is: {largest}, {tokens:,} tokens.",
        "overflow_instructions": "Shorten the system prompt, or choose a model with a larger window.",
        "overflow_tools": "Switch off tools that this chat does not need.",
        "overflow_summaries": "Start a new chat.",
        "overflow_retrieved_text": "Attach fewer documents, or ask for fewer sources.",
        "overflow_note": "Start a new chat.",
        "overflow_latest_message": "Shorten your message or its attachments, or send them in parts.",
        "overflow_current_tool_calls": "Ask for less in one go, so that fewer tools are called.",
        "overflow_earlier_turns": "Start a new chat, or choose a model with a larger window.",
        # planning: what a request lacks of its chat
        "turns_omitted": "{count} of {of} earlier turns were left out: about {tokens:,} tokens.",
        "turns_omitted.one": "{count} of {of} earlier turns was left out: about {tokens:,} tokens.",
        "turns_clipped": "Only the last {count} messages of this chat are sent to the model.",
        "turns_clipped.one": "Only the last message of this chat is sent to the model.",
        "turns_shortened": "{count} of {of} earlier turns were shortened: about {tokens:,} tokens less.",
        "turns_shortened.one": "{count} of {of} earlier turns was shortened: about {tokens:,} tokens less.",
        "results_stated": "{count} tool results were shortened to their key facts: about {tokens:,} tokens less.",
        "results_stated.one": "{count} tool result was shortened to its key facts: about {tokens:,} tokens less.",
        "results_capped": (
            "{count} long tool results were cut to their beginning and end: about {tokens:,} tokens less."
        ),
        "results_capped.one": (
            "{count} long tool result was cut to its beginning and end: about {tokens:,} tokens less."
        ),
        "retrieved_cut": (
            "The retrieved text was cut to its beginning: about {tokens:,} of its {of:,} tokens were left out."
        ),
        "retrieved_omitted": "The retrieved text was left out: about {tokens:,} tokens.",
        "tools_omitted": (
            "{count} built-in tools of Open WebUI were omitted to fit the model's window: about {tokens:,} tokens. An "
            "administrator can switch them off for this model."
        ),
        "tools_omitted.one": (
            "{count} built-in tool of Open WebUI was omitted to fit the model's window: about {tokens:,} tokens. An "
            "administrator can switch it off for this model."
        ),
        "summarizing": "Summarizing conversation ({tokens:,} tokens)...",
        "summarized": "Summarized: {before_tokens:,} → {after_tokens:,} tokens",
        "summarized_cost": "{line} ({cost})",
        "summarized_partly": "{line}; one part could not be summarized: {reason}.",
        "not_summarized": "The conversation could not be summarized: {reason}.",
        # engine: commands that users type as messages
        "help_title": (
            "Type one of these commands as a message of its own. It is answered here, without a "
            "model, and no model sees it."
        ),
        "help_context": "`/context`: what the next request is made of, and what this chat has cost.",
        "help_compact": (
            "`/compact`, or `/compact what to keep`: replace all but the newest turns by a summary "
            "now; the only command that costs anything."
        ),
        "help_restore": "`/restore`, or `/restore 3-8`: send earlier turns word for word again.",
        "help_discard": "`/discard`, or `/discard 3-8`: have the summaries of earlier turns written again.",
        "help_aim": (
            "`/aim faithful` sends as much of the chat as fits, `/aim thrifty` what costs least; from now on, in this "
            "chat."
        ),
        "help_aim_now": "The aim of this chat is `{aim}`.",
        "help_drawing": (
            "This model only draws: `/compact` needs another model in the valve SUMMARY_MODEL, and the other commands "
            "hold."
        ),
        "command_misused": "`/{name}` cannot be used like this. {usage}",
        "aim_set": "From now on, the aim of this chat is `{aim}`.",
        "aim_kept": "The aim of this chat is `{aim}` already.",
        "compact_waiting": "{line} This takes up to {seconds:.0f} seconds.",
        "compact_done": (
            "The first {count} turns are summarized: the next request has about {after:,} tokens instead of {before:,}."
        ),
        "compact_done.one": (
            "The first turn is summarized: the next request has about {after:,} tokens instead of {before:,}."
        ),
        "compact_done_again": (
            "The first {count} turns are summarized: the next request has about {after:,} tokens."
        ),
        "compact_done_again.one": (
            "The first turn is summarized: the next request has about {after:,} tokens."
        ),
        "compact_cost": "The summaries cost {cost}.",
        "compact_kept": "The summaries existed already and cost nothing.",
        "compact_failed": (
            "The summary was not written: {reason}. The next message tries again; `/restore` withdraws the command."
        ),
        "compact_too_short": (
            "Nothing was summarized: what came before the newest turns is too short, or is summarized already."
        ),
        "compact_off": (
            "Nothing was summarized: summaries are switched off here. An administrator can set the valve "
            "CONTEXT_STRATEGY to `summarize`."
        ),
        "restored": (
            "Sent word for word again from now on: turns {turns}. A request then has about {after:,} tokens instead of "
            "{before:,}."
        ),
        "restored_partly": "There is no room for turns {turns} beside them.",
        "restore_nothing": "All of these turns are sent word for word already.",
        "restore_no_room": (
            "There is no room for turns {turns} word for word. Name fewer, or choose a model with a "
            "larger window."
        ),
        "no_such_turns": "This chat has no such turns: it has {turns}.",
        "discarded": "{count} summaries are discarded. The next message has them written again.",
        "discarded.one": "{count} summary is discarded. The next message has it written again.",
        "discard_nothing": "No summary stands for these turns.",
        "context_title": "The next request to {model}",
        "context_window": "About {tokens:,} of {window_tokens:,} tokens, {share:.0%} of the window.",
        "context_window_unknown": "About {tokens:,} tokens; how large the model's window is, is not known.",
        "context_aim_faithful": "The aim is `faithful`: as much of the chat as fits is sent.",
        "context_aim_thrifty": "The aim is `thrifty`: what costs least is sent.",
        "context_part": "Part",
        "context_tokens": "Tokens",
        "context_share": "Share",
        "context_part_system": "System prompt and sources",
        "context_part_tools": "Tools",
        "context_part_summaries": "Summaries",
        "context_part_shortened": "Shortened turns",
        "context_part_recalled": "Recalled passages",
        "context_part_verbatim": "Turns word for word",
        "context_part_attachments": "Attachments",
        "context_part_reserve": "Kept for the answer",
        "context_turn": "Turn",
        "context_wrote": "What you wrote",
        "context_sent": "Sent",
        "context_original": "Of",
        "context_state": "State",
        "context_cached": "Cached",
        "context_state_verbatim": "word for word",
        "context_state_shortened": "shortened",
        "context_state_summarized": "summarized",
        "context_state_dropped": "left out",
        "context_yes": "yes",
        "context_no": "no",
        "context_earlier_turns": "{count} earlier turns",
        "context_earlier_turns.one": "{count} earlier turn",
        "context_cost": "This chat has cost {cost} so far, in {count} requests.",
        "context_cost.one": "This chat has cost {cost} so far, in {count} request.",
        "context_read": "{share:.0%} of its input was read from the provider's cache, for {cost}.",
        "context_saved": "Sending the whole chat without a cache would have cost {cost} more.",
        "context_breaks": "What made the provider read the chat anew, the latest first:",
        "context_break_turn": "turn {turn}",
        "context_break_start": "before the first turn",
        "context_cause_retention": "old tool results were shortened",
        "context_cause_clip": "only the last messages are sent",
        "context_cause_summary": "old turns were summarized",
        "context_cause_prune": "old turns were shortened",
        "context_cause_evict": "old turns were left out",
        "context_cause_recall": "the tool came that looks up what was removed",
        "context_cause_restore": "turns were restored, or no longer fit",
        "context_cause_discard": "summaries were discarded",
        "context_cause_clock": "a time or a number in the system prompt changed",
        "context_cause_memory": "Open WebUI's memories changed",
        "context_cause_prompt": "the system prompt changed",
        "context_cause_tools": "the tools changed",
        "context_cause_settings": "a parameter changed",
        "context_cause_reasoning": "reasoning of earlier answers changed",
        "context_cause_results": "earlier tool results changed",
        "context_cause_attachments": "earlier attachments changed",
        "context_cause_sources": "what was retrieved changed",
        "context_cause_edit": "earlier messages were changed",
        "context_cause_plan": "earlier turns are shortened otherwise than before",
        "context_cause_unknown": "the reason is not known",
        "context_summary": "Summary of turns {first} to {last}: {tokens:,} tokens for {source_tokens:,}",
        "context_summary_missing": "The next message has turns {first} to {last} summarized.",
        "context_as_text": "The same as text",
        "context_hint": (
            "`/restore 3-8` sends turns word for word again, `/discard 3-8` has their summary written again; `/help` "
            "lists all commands."
        ),
        "context_hint_help": "`/help` lists all commands.",
        # host: the page that answers /context
        "context_page_language": "en",
        "context_page_number": "{number:,}",
        "context_page_share": "{share:.1%}",
        "context_page_amount": "{amount}",
        "context_page_over": "{count:,} tokens more than fit into the window.",
        "context_page_over.one": "{count:,} token more than fits into the window.",
        "context_page_free": "Free",
        "context_page_turns": "Turns, in tokens",
        "context_page_no_turns": "This chat has no turns yet.",
        "context_page_cost": "Cost",
        "context_page_breaks": "What broke the cache",
        "context_page_no_breaks": "Nothing so far.",
        "context_page_cause": "Cause",
        "context_page_planned": "Planned",
        "context_page_uncounted": "not counted",
        "context_page_summaries": "Summaries",
        "context_page_summary": "Turns {first} to {last}",
        "context_page_summary_of_turn": "Turn {turn}",
        "context_page_summary_size": "{tokens:,} tokens for {source_tokens:,}",
        "context_page_restore": "Restore",
        "context_page_discard": "Discard",
        "context_page_commands": (
            "Restore sends these turns word for word again, Discard has the summary written again. You can also type "
            "`{restore}` or `{discard}`."
        ),
    }
)
"""Templates of `str.format` by name. A wait ends in three dots, a sentence in a period, `Name: value` in neither.

With a `count`, `NAME.one` is preferred to `NAME` for the counts that take a singular. `NAME.admin` is for
administrators, where they can do something else about it; `NAME.no_button` for who has no button to continue an answer.
A value may be a line, a number, a day, or several lines; of these, what separates them stands in the place of the form
where it is not a comma.
"""

ENGLISH: Final = Language(
    "en",
    _ENGLISH,
    months=(
        *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October"),
        *("November", "December"),
    ),
)
LANGUAGES: Final = MappingProxyType(
    {each.code: each for each in (ENGLISH, GERMAN, FRENCH, SPANISH, PORTUGUESE, CHINESE, JAPANESE)}
)
"""By their codes."""
_TRADITIONAL: Final = frozenset({"hant", "hk", "mo", "tw"})
"""Subtags of Chinese in traditional characters, of which there is no table."""

_ROUTINE: Final = frozenset(
    {
        *("summarizing", "waiting_for_place", "place_found", "limit_waiting", "retrying", "retry_busy"),
        *("retry_unavailable", "retry_unreachable", "retry_lost", "reading_attachments", "attachments_read"),
        *("searching", "searched", "searched_for", "reading_page", "page_read", "cost_line"),
    }
)
"""Lines about waits, and about what went as it should."""


Say: TypeAlias = Callable[..., str]
"""Returns the line of a name with its values, as `notice` does."""


class Line(str):
    """A line for the user. Its text is English; its name and values say it in every language."""

    __slots__ = ("name", "values")
    name: str
    values: Mapping[str, object]

    def __new__(cls, name: str, values: Mapping[str, object]) -> Self:
        """Fill in the English words.

        Raises:
            KeyError: There is no such line, or it needs a value that is missing.
        """
        line = super().__new__(cls, _write(name, values, ENGLISH))
        line.name, line.values = name, values
        return line

    def __getnewargs__(self) -> tuple[Any, ...]:
        """What a copy is created from."""
        return self.name, self.values


def notice(name: str, /, **values: object) -> str:
    """Return the `Line` of this name with its values; whoever passes it on need not know that it is one.

    Raises:
        KeyError: There is no such line, or it needs a value that is missing.
    """
    return Line(name, values)


def admin_notice(name: str, /, **values: object) -> str:
    """Return the line of this name for who can change settings and add credits; often it is the same.

    Raises:
        KeyError: As `notice`.
    """
    return notice(f"{name}.admin" if f"{name}.admin" in _ENGLISH else name, **values)


def is_important(text: str) -> bool:
    """Whether the line says that something is lost, cut, or not as the user wants it."""
    return not (isinstance(text, Line) and text.name in _ROUTINE)


def is_cost(text: str) -> bool:
    """Whether the line says what an answer has cost."""
    return isinstance(text, Line) and text.name == "cost_line"


def without_button(text: str) -> str:
    """Return the line for a user who has no button to continue an answer; most lines need none."""
    if isinstance(text, Line) and f"{text.name}.no_button" in _ENGLISH:
        return Line(f"{text.name}.no_button", text.values)
    return text


def in_language(text: str, language: Language) -> str:
    """Say a line in a language, as far as that has words for it; a text that is not a line stays as it is."""
    if not isinstance(text, Line):
        return text
    return str(text) if language is ENGLISH else _write(text.name, text.values, language)


def speaker(language: Language) -> Say:
    """Return what `notice` is in a language, for texts that are put together of several lines."""

    def say(name: str, /, **values: object) -> str:
        return in_language(notice(name, **values), language)

    return say


def find_language(tags: Iterable[str]) -> Language:
    """Return the language of the first tag (BCP 47, such as "pt-BR") that has one here; English where none has."""
    for tag in tags:
        code, *subtags = tag.strip().lower().replace("_", "-").split("-")
        if code in LANGUAGES and not (code == "zh" and _TRADITIONAL.intersection(subtags)):
            return LANGUAGES[code]
    return ENGLISH


def _write(name: str, values: Mapping[str, object], language: Language) -> str:
    """Fill a template; one that the language lacks is English, its numbers and the lines in it too."""
    language = language if name in language.lines else ENGLISH
    singular = f"{name}.one"
    is_one = values.get("count") in language.one and singular in language.lines
    template = language.lines[singular if is_one else name]
    return _Filler(language).vformat(template, (), values).strip()


class _Filler(Formatter):
    """Fills values into templates in the forms of a language."""

    def __init__(self, language: Language) -> None:
        self._language = language

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, str):
            return in_language(value, self._language)
        if isinstance(value, date):
            return self._language.day_of_year(value)
        if isinstance(value, Sequence):
            return (format_spec or ", ").join(in_language(each, self._language) for each in value)
        return self._language.number(value, format_spec)
