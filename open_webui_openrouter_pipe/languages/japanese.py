"""Japanese, in the polite form."""
# ruff: noqa: RUF001 - the punctuation is Japanese

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from .language import Language

_LINES: Final = MappingProxyType(
    {
        "joined": "{lines:{separator}}",
        "list_item": "- {line}",
        "sentences": "{first}{second}",
        "dollars": "${amount:,.{decimals}f}",
        "part_instructions": "指示",
        "part_tools": "ツール",
        "part_summaries": "要約",
        "part_retrieved_text": "検索で取得したテキスト",
        "part_note": "省略したメッセージについての注記",
        "part_latest_message": "最新のメッセージ",
        "part_current_tool_calls": "実行中のツール呼び出し",
        "part_earlier_turns": "以前のメッセージ",
        "period_day": "1日あたり",
        "period_month": "1か月あたり",
        "resets_daily": "1日ごと",
        "resets_weekly": "1週間ごと",
        "resets_monthly": "1か月ごと",
        "the_image": "画像",
        "the_audio": "録音",
        "the_video": "動画",
        "the_file": "ファイル",
        "unreadable_event": "OpenRouter から応答の一部ではないデータが届きました。もう一度お試しください。",
        "unexpected_error": "パイプで予期しないエラーが発生しました。詳細はサーバーのログにあります。",
        "reasoning_rejected": "プロバイダーが以前の推論を受け付けなかったため、推論なしで応答します。",
        "context_shortened": "プロバイダーが数えたトークン数がコンテキストウィンドウを超えました。",
        "answer_not_saved": "この応答の一部を保存できませんでした。以降の会話はその推論なしで続きます。",
        "answer_at_output_limit": (
            "応答が出力の上限に達しました。「応答の続きを生成」を押すか、max_tokens を増やしてください。"
        ),
        "answer_at_output_limit.no_button": (
            "応答が出力の上限に達しました。続きを書くようモデルに頼むか、max_tokens を増やしてください。"
        ),
        "answer_filtered": "プロバイダーのコンテンツフィルターが応答を停止しました。",
        "answer_cut_off": (
            "プロバイダーが応答を打ち切りました。残りは「応答の続きを生成」を押すと得られます。"
        ),
        "answer_cut_off.no_button": (
            "プロバイダーが応答を打ち切りました。続きを書くようモデルに頼んでください。"
        ),
        "answer_empty": "モデルは応答せずに終了しました。もう一度質問するか、別のモデルを選んでください。",
        "no_encryption_key": (
            "暗号化するキーがないため、推論とツールの結果は保存されません。管理者が関数のバルブ "
            "ARTIFACT_ENCRYPTION_KEY に設定できます。"
        ),
        "attachment_not_stored": (
            "画像を Open WebUI のファイルとして保存できませんでした（{reason}）。画像はチャット自体に残りま"
            "す。"
        ),
        "attachment_damaged": "画像が壊れています",
        "attachment_storage_failed": "ストレージに問題があります。詳細はサーバーのログにあります",
        "attachment_not_a_picture": (
            "モデルが表示できない形式の画像を送りました。表示できるのは PNG、JPEG、WebP、GIF です。"
        ),
        "artifacts_unavailable": (
            "保存された項目 {count} 件を再読み込みできませんでした：データベースを利用できません。"
        ),
        "artifacts_missing": "保存された項目 {count} 件を再読み込みできませんでした（{details:、}）。",
        "artifacts_not_found": "{count} 件はもうありません",
        "artifacts_unreadable": "{count} 件は別のキーで暗号化されているか、壊れています",
        "artifacts_too_large": "{count} 件はサイズの上限を超えています",
        "reading_attachments": "このチャットの添付ファイルを読み込んでいます...",
        "attachments_read": "添付ファイルを読み込みました。",
        "attachments_unread_image": "画像 {count} 件は送信されませんでした：このモデルは画像を読めません。",
        "attachments_unread_audio": "録音 {count} 件は送信されませんでした：このモデルは音声を読めません。",
        "attachments_unread_video": "動画 {count} 件は送信されませんでした：このモデルは動画を読めません。",
        "images_omitted": "以前の画像 {count} 件はモデルに表示されなくなりました。",
        "images_too_many": (
            "画像 {count} 件は送信されませんでした：1回のリクエストに入るのは最大 {limit} 件です。"
        ),
        "too_many_images": "1回のリクエストに入る画像は最大 {limit} 件です",
        "attachments_omitted": (
            "以前の添付ファイル {count} 件は送信されなくなりました：合計が {megabytes:,.0f} MB を超えていま"
            "す。"
        ),
        "attachments_too_large": (
            "添付ファイル {count} 件は送信されませんでした：合計が {megabytes:,.0f} MB を超えています。"
        ),
        "too_large_together": "合計が {megabytes:,.0f} MB を超えています",
        "attachment_not_sent": "{name}は送信されませんでした：{reason}。",
        "attachment_kind": "このモデルは {kind} 形式のファイルを読めません",
        "attachment_unknown": "ファイルの形式が不明です",
        "attachment_unreadable": "ファイルを読み込めません",
        "attachment_too_large": "ファイルが {megabytes:,.0f} MB を超えています",
        "document_as_excerpts": "{name} は Open WebUI が選んだ抜粋だけがこのモデルに渡されます：{reason}。",
        "no_api_key": (
            "OpenRouter の API キーが設定されていません。管理者が関数のバルブ API_KEY に設定できます。"
        ),
        "no_api_key.admin": (
            "OpenRouter の API キーが設定されていません。関数のバルブ API_KEY に入力してください。キーは "
            "https://openrouter.ai/settings/keys にあります。"
        ),
        "unusable_key": (
            "OpenRouter の API キーに、キーにはない文字が含まれています。管理者が関数のバルブ API_KEY を修正"
            "できます。"
        ),
        "unusable_address": (
            "OpenRouter のアドレスが使用できません。管理者が関数のバルブ BASE_URL を修正できます。"
        ),
        "not_openrouter": (
            "OpenRouter のアドレスにあるサーバーは OpenRouter ではないか、故障しています。管理者が関数のバル"
            "ブ BASE_URL を確認できます。"
        ),
        "unreachable": (
            "OpenRouter に接続できませんでした：このサーバーの接続か OpenRouter 自体が停止しています。1分後"
            "にもう一度お試しください。"
        ),
        "unreachable.admin": (
            "OpenRouter に接続できませんでした：このサーバーの接続か OpenRouter 自体が停止しています。続く場"
            "合は、サーバーのネットワークとプロキシ、関数のバルブ BASE_URL、https://status.openrouter.ai を"
            "確認してください。"
        ),
        "no_response": (
            "OpenRouter が {seconds:.0f} 秒以内に応答しませんでした。もう一度お試しになるか、別のモデルを選"
            "んでください。"
        ),
        "no_response.admin": (
            "OpenRouter が {seconds:.0f} 秒以内に応答しませんでした。もう一度お試しになるか、別のモデルを選"
            "んでください。待つ時間は関数のバルブ ADVANCED で設定できます（REQUEST_TIMEOUT_SECONDS）。"
        ),
        "stream_silent": (
            "OpenRouter から {seconds:.0f} 秒間何も届かなかったため、応答はここで終わります。もう一度お試し"
            "ください。"
        ),
        "stream_lost": "応答中に OpenRouter との接続が切れました。もう一度お試しください。",
        "stream_incomplete": "応答が完了する前に OpenRouter が終了しました。もう一度お試しください。",
        "wait_unknown": "しばらくしてからもう一度お試しになる",
        "wait_over": "今すぐもう一度お試しになる",
        "wait_seconds": "{count} 秒後にもう一度お試しになる",
        "wait_minutes": "約 {count} 分後にもう一度お試しになる",
        "wait_tomorrow": "明日もう一度お試しになる",
        "wait_hours": "約 {count} 時間後にもう一度お試しになる",
        "quote": "原文：「{text}」",
        "a_provider": "プロバイダー",
        "the_provider": "プロバイダー {name}",
        "reasoning_not_accepted": (
            "プロバイダーがこのチャットの以前の推論を受け付けませんでした。もう一度お試しください。"
        ),
        "too_long": (
            "チャットがこのモデルには長すぎます。短くするか、コンテキストウィンドウの大きいモデルを選んでく"
            "ださい。"
        ),
        "too_long_numbers": (
            "チャットがこのモデルには長すぎます（{requested:,} トークン、モデルの上限は {limit:,}）。短くす"
            "るか、コンテキストウィンドウの大きいモデルを選んでください。"
        ),
        "provider_unavailable": "{provider}は現在利用できません。{wait}か、別のモデルを選んでください。",
        "provider_overloaded": "{provider}は現在過負荷です。{wait}か、別のモデルを選んでください。",
        "provider_slow": (
            "{provider}の応答に時間がかかりすぎました。{wait}か、より速いモデルを選んでください。"
        ),
        "provider_busy": "{provider}は現在リクエストが多すぎます。{wait}か、別のモデルを選んでください。",
        "provider_busy.admin": (
            "{provider}は現在リクエストが多すぎます。{wait}か、別のモデルを選んでください。頻繁に起こる場合"
            "は、クレジットの追加、OpenRouter でのプロバイダー自身のキー、代替モデルが役立ちます。{quote}"
        ),
        "free_daily_limit": (
            "OpenRouter の無料モデルの1日の上限に達しました。{wait}か、有料のモデルを選んでください。"
        ),
        "free_daily_limit.admin": (
            "OpenRouter の無料モデルの1日の上限に達しました。{wait}か、有料のモデルを選んでください。"
            "https://openrouter.ai/settings/credits でクレジットを購入すると上限が上がります。"
        ),
        "free_limit": (
            "OpenRouter の無料モデルの1分あたりの上限に達しました。{wait}か、有料のモデルを選んでください。"
        ),
        "model_not_found": "OpenRouter にこのモデルはありません。別のモデルを選んでください。",
        "model_deprecated": "OpenRouter はこのモデルの提供を終了しました。別のモデルを選んでください。",
        "free_variant_ended": "このモデルの無料版は終了しました。有料版か別のモデルを選んでください。",
        "region_restricted": "このモデルはお住まいの地域では提供されていません。別のモデルを選んでください。",
        "privacy_restricted": (
            "アカウントのプライバシー設定を満たすプロバイダーがこのモデルにはありません。別のモデルを選んで"
            "ください。"
        ),
        "privacy_restricted.admin": (
            "アカウントのプライバシー設定を満たすプロバイダーがこのモデルにはありません。別のモデルを選ぶか"
            "、https://openrouter.ai/settings/privacy で設定を変更してください。"
        ),
        "constraint_filtered": (
            "リクエストの要件を満たすプロバイダーがこのモデルにはありません。別のモデルを選んでください。"
        ),
        "constraint_filtered.admin": (
            "リクエストの要件を満たすプロバイダーがこのモデルにはありません。別のモデルを選ぶか、モデルのプ"
            "ロバイダー設定を緩めてください。"
        ),
        "no_endpoint": "このリクエストを処理できるプロバイダーがこのモデルにはありません。{quote}",
        "no_tool_provider": (
            "ツールに対応するプロバイダーがこのモデルにはありません。ツールをオフにするか、別のモデルを選ん"
            "でください。"
        ),
        "no_attachment_provider": (
            "この種類の添付ファイルを読めるプロバイダーがこのモデルにはありません。添付ファイルを外すか、別"
            "のモデルを選んでください。"
        ),
        "no_allowed_provider": (
            "このサーバーの設定ではこのモデルを利用できません。別のモデルを選んでください。"
        ),
        "no_allowed_provider.admin": (
            "プロバイダー設定がこのモデルのすべてのプロバイダーを除外しています。別のモデルを選ぶか、モデル"
            "または OpenRouter アカウントの設定を緩めてください。"
        ),
        "moderated": "メッセージがモデレーションで拒否されました。書き換えるか、別のモデルを選んでください。",
        "moderated_reasons": (
            "メッセージがモデレーションで拒否されました（{reasons}）。書き換えるか、別のモデルを選んでくださ"
            "い。"
        ),
        "key_rejected": (
            "OpenRouter がこのサーバーの API キーを受け付けませんでした。管理者に知らせてください。"
        ),
        "key_rejected.admin": (
            "OpenRouter が API キーを受け付けませんでした。関数のバルブ API_KEY を確認してください。有効なキ"
            "ーは https://openrouter.ai/settings/keys にあります。"
        ),
        "no_credits": (
            "OpenRouter アカウントのクレジットがこのリクエストには足りません。管理者に知らせてください。短い"
            "応答や安いモデルなら可能かもしれません。"
        ),
        "no_credits.admin": (
            "OpenRouter アカウントのクレジットがこのリクエストには足りません。"
            "https://openrouter.ai/settings/credits で追加するか、max_tokens を減らしてください。"
        ),
        "no_credits_numbers": (
            "OpenRouter アカウントのクレジットがこのリクエストには足りません（要求は最大 {requested:,} トー"
            "クン、支払えるのは {affordable:,}）。管理者に知らせてください。短い応答や安いモデルなら可能かも"
            "しれません。"
        ),
        "no_credits_numbers.admin": (
            "OpenRouter アカウントのクレジットがこのリクエストには足りません（要求は最大 {requested:,} トー"
            "クン、支払えるのは {affordable:,}）。https://openrouter.ai/settings/credits で追加するか、"
            "max_tokens を減らしてください。"
        ),
        "access_denied": (
            "OpenRouter がこのリクエストを拒否しました。別のモデルを選ぶか、管理者に知らせてください。{quote}"
        ),
        "access_denied.admin": (
            "OpenRouter がこのリクエストを拒否しました。アカウントのガードレールとキーの権限を "
            "https://openrouter.ai/settings で確認してください。{quote}"
        ),
        "request_too_large": (
            "リクエストが大きすぎて送信できません。添付ファイルを外すか小さくする、または新しいチャットを始"
            "めてください。"
        ),
        "request_rejected": (
            "プロバイダーがリクエストを拒否しました。そのまま再送しても解決しません。変更するか、別のモデル"
            "を選んでください。{quote}"
        ),
        "provider_error": (
            "OpenRouter がエラーを返しました。もう一度お試しになるか、別のモデルを選んでください。{quote}"
        ),
        "key_limit_reached": (
            "このサーバーの OpenRouter キーの利用上限額に達しました。管理者に知らせてください。"
        ),
        "key_limit_reached.admin": (
            "OpenRouter キーの利用上限額に達しました。https://openrouter.ai/settings/keys で引き上げてくださ"
            "い。"
        ),
        "image_unusable": (
            "プロバイダーがこのチャットの画像を使用できません。外すか、別の形式やサイズで添付してください。"
            "{quote}"
        ),
        "output_too_long": (
            "モデルが書ける長さを超える応答が要求されています。max_tokens を減らしてください。{quote}"
        ),
        "model_refused": "モデルが応答を拒否しました。メッセージを書き換えるか、別のモデルを選んでください。",
        "data_residency": (
            "データを処理できる場所に関するアカウントの規則により、このモデルは使用できません。別のモデルを"
            "選んでください。"
        ),
        "data_residency.admin": (
            "データを処理できる場所に関するアカウントの規則により、このモデルは使用できません。別のモデルを"
            "選ぶか、https://openrouter.ai/settings/privacy で変更してください。"
        ),
        "effort_rejected": "モデルはこの推論レベルに対応していません。別のレベルを選んでください。{quote}",
        "parameter_rejected": (
            "モデルがリクエストのパラメーターの1つを受け付けません。チャットのコントロールから外してください"
            "。{quote}"
        ),
        "effort_replaced": (
            "モデルは推論レベル `{asked}` に対応していないため、`{used}` で再度リクエストしました。"
        ),
        "effort_omitted": (
            "モデルは推論レベル `{asked}` に対応していないため、指定なしで再度リクエストしました。"
        ),
        "parameter_omitted": (
            "モデルがパラメーター {name} を受け付けないため、指定なしで再度リクエストしました。"
        ),
        "retry_busy": "プロバイダーが混雑しています。{seconds} 秒後に再試行します（{attempt}/{attempts}）...",
        "retry_unavailable": (
            "プロバイダーを利用できません。{seconds} 秒後に再試行します（{attempt}/{attempts}）..."
        ),
        "retry_unreachable": (
            "OpenRouter に接続できません。{seconds} 秒後に再試行します（{attempt}/{attempts}）..."
        ),
        "retry_lost": (
            "OpenRouter の応答が途切れました。{seconds} 秒後に再試行します（{attempt}/{attempts}）..."
        ),
        "retrying": "再度リクエストしました（{attempt}/{attempts}）。",
        "address_paused": (
            "現在 OpenRouter に接続できません。次に試せるのは {seconds:.0f} 秒後です。それまでお待ちください"
            "。"
        ),
        "address_paused.admin": (
            "OpenRouter に {failures} 回続けて接続できませんでした。次に試せるのは {seconds:.0f} 秒後です。"
            "続く場合は、サーバーのネットワークとプロキシ、関数のバルブ BASE_URL、"
            "https://status.openrouter.ai を確認してください。"
        ),
        "waiting_for_place": "現在多くのリクエストが実行中です。順番を待っています...",
        "place_found": "待機が終わりました。",
        "queue_full": (
            "このサーバーは混雑しています：待機中のリクエストが多すぎます。1分後にもう一度お試しください。"
        ),
        "queue_full.admin": (
            "このサーバーで待機中のリクエストが多すぎます。同時に実行される数は関数のバルブ ADVANCED で設定"
            "できます（MAX_REQUESTS、MAX_REQUESTS_PER_USER）。"
        ),
        "queue_slow": (
            "このサーバーは混雑しています：リクエストは他の処理の終了を {seconds:.0f} 秒待ちました。後でもう"
            "一度お試しください。"
        ),
        "queue_slow.admin": (
            "リクエストは他の処理の終了を {seconds:.0f} 秒待ちました。同時に実行される数は関数のバルブ "
            "ADVANCED で設定できます（MAX_REQUESTS、MAX_REQUESTS_PER_USER）。"
        ),
        "with_reference": "{line}（参照番号 {reference}）",
        "no_provider_left": (
            "モデルのプロバイダー設定と管理者の設定が互いに排他的なため、使えるプロバイダーが残りません。別"
            "のモデルを選んでください。設定は管理者が緩めることができます。"
        ),
        "own_key_rejected": (
            "OpenRouter がご自身の API キーを受け付けませんでした。ご自身のバルブで修正または削除してくださ"
            "い（コントロール → バルブ）。"
        ),
        "own_key_without_credits": (
            "ご自身の OpenRouter アカウントのクレジットがこのリクエストには足りません。"
            "https://openrouter.ai/settings/credits で追加するか、ご自身のバルブで API キーを削除してくださ"
            "い（コントロール → バルブ）。"
        ),
        "own_key_unreadable": (
            "ご自身の API キーを読み取れません：別のユーザー用に暗号化されたか、サーバーの秘密キーが変わりま"
            "した。ご自身のバルブでもう一度入力するか、削除してください（コントロール → バルブ）。"
        ),
        "search_keeps_data": (
            "ウェブは検索されません：データを保持しない設定では、モデルのプロバイダー自身だけが検索できます"
            "が、このプロバイダーには検索がありません。"
        ),
        "searching": "ウェブを検索しています...",
        "searched": "ウェブを検索しました。",
        "searched_for": "ウェブを検索しました：{query}",
        "search_failed": "検索に失敗しました。",
        "reading_page": "ウェブページを読んでいます...",
        "page_read": "読みました：{url}",
        "status_ready_advice": "すべて正常です。モデルを選んでください。",
        "status_no_key_advice": (
            "API キーが設定されていません。https://openrouter.ai/settings/keys で作成し、管理者パネル → 関数"
            " → この関数の歯車で `API_KEY` として、またはサーバーの環境変数 `OPENROUTER_API_KEY` として設定"
            "してください。"
        ),
        "status_key_unusable_advice": (
            "バルブの `API_KEY` に、キーにはない文字が含まれています。キー全体を引用符なしでもう一度コピーし"
            "てください。"
        ),
        "status_key_refused_advice": (
            "OpenRouter が API キーを拒否しています：入力ミスか、無効化または削除されたキーです。"
            "https://openrouter.ai/settings/keys で確認し、バルブの `API_KEY` を設定し直してください。"
        ),
        "status_key_used_up_advice": (
            "API キーの利用枠が残っていません。https://openrouter.ai/settings/keys で引き上げるか、別のキー"
            "を設定してください。"
        ),
        "status_address_advice": (
            "バルブの `BASE_URL` はアドレスではありません：アドレスは https:// または http:// とサーバー名で"
            "始まります。既定値は https://openrouter.ai/api/v1 です。"
        ),
        "status_not_openrouter_advice": (
            "バルブの `BASE_URL` で応答しているものにはモデルの一覧がないため、OpenRouter の API ではありま"
            "せん。既定値は https://openrouter.ai/api/v1 です。パス全体が必要です。"
        ),
        "status_unreachable_advice": (
            "{since} から OpenRouter に接続できません。バルブの `BASE_URL` と、このサーバーが接続できるかど"
            "うか（ネットワーク、DNS、プロキシ、ファイアウォール）を確認してください。詳細はサーバーのログに"
            "あります。自動的に再試行されます。"
        ),
        "status_failing_advice": (
            "{since} から OpenRouter がエラーを返しています。詳細はサーバーのログに、障害の有無は "
            "https://status.openrouter.ai にあります。自動的に再試行されます。"
        ),
        "status_loading_advice": (
            "モデルの一覧を読み込んでいます。少し待ってからページを再読み込みしてください。"
        ),
        "status_unmatched_advice": (
            "バルブの `MODELS` のパターンに合うモデルがありません。`*` ですべてのモデルが提供されます。"
        ),
        "status_filtered_advice": (
            "バルブの `MODELS` が提供するモデルのうち、すべての `MODEL_FILTERS` を満たすものがありません。"
        ),
        "status_unknown_filter_advice": (
            "バルブの `MODEL_FILTERS` に不明な語があり、修正されるまでモデルは提供されません：{words}。使え"
            "るのは `free`、`tools`、`vision`、`zdr`、`newest`、`no-expiring`、`context>=128k`、`price<=2` "
            "で、コンマで区切ります。"
        ),
        "status_zdr_unknown_advice": (
            "どのモデルがデータを保持しないかはまだ不明です。`MODEL_FILTERS` に `zdr` がある場合、"
            "OpenRouter の一覧が読み込まれるまでモデルは提供されません。読み込めない理由はサーバーのログにあ"
            "ります。自動的に再試行されます。"
        ),
        "status_unknown_variant_advice": (
            "`ADVANCED` の `VARIANTS` にバリアントではない項目があります：{words}。使えるのは "
            "`openai/gpt-5*:nitro`、`anthropic/*@preset/team`、`@preset/team` のような、バリアントまたはプリ"
            "セット付きのパターンです。ほかの項目は提供されます。"
        ),
        "status_models": "{count:,} 個のモデルが提供されています。",
        "status_for_users_ready": "OpenRouter の準備ができました。モデルを選んでください。",
        "status_for_users_wait": "現在 OpenRouter を利用できません。数分後にもう一度お試しください。",
        "status_for_users_ask": (
            "現在 OpenRouter を利用できません。管理者による設定が必要です。管理者にお問い合わせください。"
        ),
        "key_used": "API キーの使用額は ${total:,.2f} です：今月 ${month:,.2f}、今日 ${today:,.2f}。",
        "key_limit": "利用枠は ${limit:,.2f} で、残りは ${remaining:,.2f} です。",
        "key_limit_resets": "利用枠は ${limit:,.2f}（{period}）で、残りは ${remaining:,.2f} です。",
        "key_without_limit": "キー自体の利用枠はなく、アカウントのクレジットが上限です。",
        "key_free_tier": (
            "クレジットがまだ購入されていません：無料モデルだけを1日に少数のリクエストで利用できます。クレジ"
            "ットは https://openrouter.ai/settings/credits で購入できます。"
        ),
        "key_expires": "有効期限は {time} です。",
        "no_messages": "このリクエストには読み取れるメッセージがありません。",
        "no_model": "このリクエストにはモデルの指定がありません。",
        "parameters_omitted": (
            "管理者がユーザーによる設定を許可していないため、リクエストから除かれました：{names}。"
        ),
        "download_address_refused": "このアドレスは許可されていません",
        "download_unreachable": "サーバーに接続できませんでした",
        "download_refused": "サーバーがステータス {status} を返しました",
        "download_broken": "接続が切れました",
        "download_compressed": "サーバーが圧縮した形で送信しました",
        "download_redirects": "アドレスのリダイレクトが多すぎます",
        "download_too_slow": "{seconds:,.0f} 秒を超えました",
        "file_not_found": "ファイルが存在しないか、読む権限がありません",
        "file_content_missing": "Open WebUI のストレージに内容が残っていません",
        "file_unreadable": "Open WebUI のストレージを読み取れませんでした",
        "file_not_stored": "Open WebUI のストレージがファイルを受け付けませんでした",
        "limits_unreadable": (
            "チャットできません：管理者が関数のバルブ SPENDING_LIMITS を修正する必要があります。次の部分を読"
            "み取れません：{part}"
        ),
        "limits_unreadable_admin": (
            "関数のバルブ SPENDING_LIMITS の次の部分を読み取れないため、ユーザーはチャットできません：{part}"
        ),
        "limits_unavailable": (
            "何も送信されませんでした：データベースを利用できないため、利用上限額を確認できません。もう一度"
            "お試しください。"
        ),
        "limit_reached": (
            "{whose}（{period} {amount}）を使い切りました。{when} に更新されます。何も送信されませんでした。"
        ),
        "limit_near": (
            "{whose}（{period} {amount}）をほぼ使い切りました。{when} に更新されます。費用を抑えるため、長い"
            "チャットは短縮されます。"
        ),
        "limit_in_use": (
            "何も送信されませんでした：利用上限額の残りは他のリクエストが使用中です。それらの応答が終わって"
            "からもう一度お試しください。"
        ),
        "task_of_declined": "送信されませんでした：このチャットのメッセージも送信されていません。",
        "limit_waiting": "利用上限額の残りが少ないため、他の応答を待っています...",
        "limit_of_user": "あなたの利用上限額",
        "limit_of_group": "グループ {group} の利用上限額",
        "limit_of_all": "全ユーザーの利用上限額",
        "confirm_title": "約 {cost} で送信しますか？",
        "confirm_cost": (
            "このメッセージのためにモデルは約 {tokens:,} トークンを読みます。プロバイダーのキャッシュからの"
            "ものはありません。費用は約 {cost} で、応答の費用が加わります。キャンセルすると何も送信されず、"
            "費用もかかりません。"
        ),
        "confirm_cost_cached": (
            "このメッセージのためにモデルは約 {tokens:,} トークンを読み、うち {cached:,} はプロバイダーのキ"
            "ャッシュからです。費用は約 {cost} で、応答の費用が加わります。キャンセルすると何も送信されず、"
            "費用もかかりません。"
        ),
        "confirm_switch": (
            "{earlier} のキャッシュにはこのチャットがまだあり、そこではこのメッセージは約 {cached} です。"
            "{model} はすべてを約 {cost} で読む必要があり、応答の費用が加わります。キャンセルすると何も送信"
            "されず、費用もかかりません。"
        ),
        "declined": "送信されませんでした：約 {cost} に同意されませんでした。課金はありません。",
        "cost_line": "{line}",
        "cost_input": "入力 {tokens:,} トークン",
        "cost_input_cached": "入力 {tokens:,} トークン（キャッシュ {cached:,}）",
        "cost_output": "出力 {tokens:,}",
        "cost_seconds": "{seconds:,.1f} 秒",
        "cost_speed": "{speed:,.0f} トークン/秒",
        "next_cost": "次のメッセージは {cost} から",
        "next_cost_until": "次のメッセージは {cached} から（{when} を過ぎると {cold} から）",
        "tomorrow_at": "明日 {clock}",
        "on_day_at": "{day} {clock}",
        "reasoning_disabled": "推論は保存されません：ご自身の設定にかかわらず、管理者がオフにしています。",
        "user_limits_not_followed": (
            "管理者がユーザーによる設定を許可していないため、設定の一部は無効です：{names}。"
        ),
        "user_valves_lost": (
            "設定の一部を読み取れないため、何も送信されませんでした。その中にはチャットの保持や支払いに関す"
            "る設定が含まれます：{names}。ご自身のバルブで設定し直して保存してください（コントロール → バル"
            "ブ）。"
        ),
        "user_valves_unreadable": (
            "設定の一部を読み取れないため無効です：{names}。ご自身のバルブで設定し直してください（コントロー"
            "ル → バルブ）。"
        ),
        "valves_not_saved": "保存されませんでした。{problems}。",
        "valves_lost": (
            "チャットを守る設定や費用を制限する設定を読み取れないため、何も送信されませんでした：{names}。管"
            "理者が関数のバルブで設定し直す必要があります。"
        ),
        "summary_failure_empty": "モデルの応答が空でした",
        "summary_failure_malformed": "モデルの応答が想定した形式ではありませんでした",
        "summary_failure_longer_than_its_source": "要約が元の文章より長くなりました",
        "summary_failure_repeats_its_prompt": "モデルが指示を繰り返しました",
        "summary_failure_cut_off": "モデルの応答が途中で切れました",
        "summary_failure_calls_a_tool": "モデルがツールを呼び出しました",
        "summary_failure_reasoning_only": "モデルが推論だけで応答しませんでした",
        "summary_failure_refused": "モデルが拒否しました",
        "summary_failure_not_grounded": "要約にチャットにない内容が含まれていました",
        "summary_failure_no_content": "モデルの応答に内容がありませんでした",
        "summary_failure_too_short": "要約が短すぎました",
        "summary_failure_not_about_its_source": "要約がチャットの内容ではありませんでした",
        "summary_failure_timed_out": "モデルの処理に時間がかかりすぎました",
        "summary_failure_claimed_elsewhere": "別のサーバープロセスが処理中です",
        "summary_failure_database_unavailable": "データベースを利用できません",
        "summary_failure_provider": "プロバイダーがエラーを返しました",
        "summary_failure_unexpected_error": "予期しないエラー",
        "window_too_small": (
            "モデルのコンテキストウィンドウ（{window_tokens:,} トークン）には入力の余地がありません。"
        ),
        "window_too_small_advice": "コンテキストウィンドウの大きいモデルを選んでください。",
        "overflow": (
            "このリクエストには約 {needed_tokens:,} トークンが必要ですが、モデルのコンテキストウィンドウ（"
            "{window_tokens:,}）には応答のほかに {limit_tokens:,} しか入りません。"
        ),
        "overflow_largest": "変更できる最大の部分は{largest}、{tokens:,} トークンです。",
        "overflow_instructions": (
            "システムプロンプトを短くするか、コンテキストウィンドウの大きいモデルを選んでください。"
        ),
        "overflow_tools": "このチャットに不要なツールをオフにしてください。",
        "overflow_summaries": "新しいチャットを始めてください。",
        "overflow_retrieved_text": "添付する文書を減らすか、求める情報源を減らしてください。",
        "overflow_note": "新しいチャットを始めてください。",
        "overflow_latest_message": "メッセージか添付ファイルを短くするか、分けて送信してください。",
        "overflow_current_tool_calls": "ツールの呼び出しが減るよう、一度に求めることを減らしてください。",
        "overflow_earlier_turns": (
            "新しいチャットを始めるか、コンテキストウィンドウの大きいモデルを選んでください。"
        ),
        "turns_omitted": (
            "以前のメッセージ {of} 件のうち {count} 件を応答とともに省略しました：約 {tokens:,} トークン。"
        ),
        "turns_clipped": "このチャットの最後のメッセージ {count} 件だけがモデルに送信されます。",
        "turns_shortened": (
            "以前のメッセージ {of} 件のうち {count} 件を応答とともに短縮しました：約 {tokens:,} トークン削減"
            "。"
        ),
        "results_stated": "ツールの結果 {count} 件を要点に短縮しました：約 {tokens:,} トークン削減。",
        "results_capped": (
            "ツールの長い結果 {count} 件を最初と最後に短縮しました：約 {tokens:,} トークン削減。"
        ),
        "retrieved_cut": (
            "検索で取得したテキストを最初の部分に短縮しました：{of:,} トークンのうち約 {tokens:,} を省略。"
        ),
        "retrieved_omitted": "検索で取得したテキストを省略しました：約 {tokens:,} トークン。",
        "tools_omitted": (
            "モデルのコンテキストウィンドウに収めるため、Open WebUI の組み込みツール {count} 個を省略しまし"
            "た：約 {tokens:,} トークン。管理者がこのモデルでオフにできます。"
        ),
        "summarizing": "チャットを要約しています（{tokens:,} トークン）...",
        "summarized": "要約しました：{before_tokens:,} → {after_tokens:,} トークン",
        "summarized_cost": "{line}（{cost}）",
        "summarized_partly": "{line}。一部は要約できませんでした：{reason}。",
        "not_summarized": "チャットを要約できませんでした：{reason}。",
        "help_title": (
            "次のコマンドを単独のメッセージとして入力してください。モデルを使わずここで応答し、どのモ"
            "デルにも渡されません。"
        ),
        "help_context": "`/context`：次のリクエストの内訳と、このチャットのこれまでの費用。",
        "help_compact": (
            "`/compact` または `/compact what to keep`（残したい内容）：最新のメッセージ以外を今すぐ要約しま"
            "す。費用がかかるのはこのコマンドだけです。"
        ),
        "help_restore": "`/restore` または `/restore 3-8`：以前のメッセージを再び原文のまま送信します。",
        "help_discard": "`/discard` または `/discard 3-8`：以前のメッセージの要約を書き直します。",
        "help_aim": (
            "`/aim faithful` はチャットを入るだけ送信し、`/aim thrifty` は費用が最も少ない形で送信します。今"
            "後このチャットに適用されます。"
        ),
        "help_aim_now": "このチャットは方針 `{aim}` で送信されます。",
        "help_drawing": (
            "このモデルは描画専用です：`/compact` にはバルブ SUMMARY_MODEL で別のモデルが必要ですが、ほかの"
            "コマンドは使えます。"
        ),
        "command_misused": "`/{name}` はこのようには使えません。{usage}",
        "aim_set": "今後このチャットの方針は `{aim}` です。",
        "aim_kept": "このチャットの方針はすでに `{aim}` です。",
        "compact_waiting": "{line}最大 {seconds:.0f} 秒かかります。",
        "compact_done": (
            "最初のメッセージ {count} 件を応答とともに要約しました：次のリクエストは {before:,} ではなく約 "
            "{after:,} トークンです。"
        ),
        "compact_done_again": (
            "最初のメッセージ {count} 件を応答とともに要約しました：次のリクエストは約 {after:,} トー"
            "クンです。"
        ),
        "compact_cost": "要約の費用は {cost} でした。",
        "compact_kept": "要約はすでにあり、費用はかかりませんでした。",
        "compact_failed": (
            "要約を書けませんでした：{reason}。次のメッセージで再び試みます。`/restore` でこのコマンドを取り"
            "消せます。"
        ),
        "compact_too_short": (
            "何も要約されませんでした：最新のメッセージより前の部分が短すぎるか、すでに要約されています。"
        ),
        "compact_off": (
            "何も要約されませんでした：ここでは要約がオフになっています。管理者がバルブ CONTEXT_STRATEGY を "
            "`summarize` に設定できます。"
        ),
        "restored": (
            "今後、再び原文のまま送信されます：メッセージ {turns}。リクエストは {before:,} ではなく約 "
            "{after:,} トークンになります。"
        ),
        "restored_partly": "これらに加えてメッセージ {turns} を入れる余地はありません。",
        "restore_nothing": "これらのメッセージはすべて、すでに原文のまま送信されています。",
        "restore_no_room": (
            "メッセージ {turns} を原文のまま入れる余地がありません。件数を減らすか、より大きいウィン"
            "ドウのモデルを選んでください。"
        ),
        "no_such_turns": "このチャットにそのようなメッセージはありません：全部で {turns} 件です。",
        "discarded": "要約 {count} 件を破棄しました。次のメッセージで書き直されます。",
        "discard_nothing": "これらのメッセージの要約はありません。",
        "context_title": "{model} への次のリクエスト",
        "context_window": (
            "{window_tokens:,} トークンのうち約 {tokens:,}、コンテキストウィンドウの {share:.0%} です。"
        ),
        "context_window_unknown": (
            "約 {tokens:,} トークン。モデルのコンテキストウィンドウの大きさは不明です。"
        ),
        "context_aim_faithful": "方針は `faithful` です：チャットを入るだけ送信します。",
        "context_aim_thrifty": "方針は `thrifty` です：費用が最も少ない形で送信します。",
        "context_part": "部分",
        "context_tokens": "トークン",
        "context_share": "割合",
        "context_part_system": "システムプロンプトと情報源",
        "context_part_tools": "ツール",
        "context_part_summaries": "要約",
        "context_part_shortened": "短縮したメッセージ",
        "context_part_recalled": "呼び戻した箇所",
        "context_part_verbatim": "原文のままのメッセージ",
        "context_part_attachments": "添付ファイル",
        "context_part_reserve": "応答用に確保",
        "context_turn": "メッセージ",
        "context_wrote": "あなたが書いた内容",
        "context_sent": "送信",
        "context_original": "元の量",
        "context_state": "状態",
        "context_cached": "キャッシュ",
        "context_state_verbatim": "原文のまま",
        "context_state_shortened": "短縮",
        "context_state_summarized": "要約",
        "context_state_dropped": "省略",
        "context_yes": "はい",
        "context_no": "いいえ",
        "context_earlier_turns": "以前のメッセージ {count} 件",
        "context_cost": "このチャットのこれまでの費用は {cost}、リクエストは {count} 回です。",
        "context_read": "入力の {share:.0%} はプロバイダーのキャッシュから読み込まれ、費用は {cost} でした。",
        "context_saved": "キャッシュなしでチャット全体を送信していたら、費用は {cost} 多くなっていました。",
        "context_breaks": "プロバイダーがチャットを読み直した原因（新しい順）：",
        "context_break_turn": "メッセージ {turn}",
        "context_break_start": "最初のメッセージより前",
        "context_cause_retention": "古いツールの結果が短縮されました",
        "context_cause_clip": "最後のメッセージだけが送信されます",
        "context_cause_summary": "古いメッセージが要約されました",
        "context_cause_prune": "古いメッセージが短縮されました",
        "context_cause_evict": "古いメッセージが省略されました",
        "context_cause_recall": "除かれた内容を調べるツールが加わりました",
        "context_cause_restore": "メッセージが復元されたか、入らなくなりました",
        "context_cause_discard": "要約が破棄されました",
        "context_cause_clock": "システムプロンプト内の時刻か数字が変わりました",
        "context_cause_memory": "Open WebUI のメモリが変わりました",
        "context_cause_prompt": "システムプロンプトが変わりました",
        "context_cause_tools": "ツールが変わりました",
        "context_cause_settings": "パラメーターが変わりました",
        "context_cause_reasoning": "以前の応答の推論が変わりました",
        "context_cause_results": "以前のツールの結果が変わりました",
        "context_cause_attachments": "以前の添付ファイルが変わりました",
        "context_cause_sources": "検索で取得したテキストが変わりました",
        "context_cause_edit": "以前のメッセージが変更されました",
        "context_cause_plan": "以前のメッセージの短縮のしかたが変わりました",
        "context_cause_unknown": "原因は不明です",
        "context_summary": (
            "メッセージ {first}～{last} の要約：{source_tokens:,} トークンを {tokens:,} トークンに短縮"
        ),
        "context_summary_missing": "次のメッセージでメッセージ {first}～{last} が要約されます。",
        "context_as_text": "同じ内容をテキストで表示",
        "context_hint": (
            "`/restore 3-8` はメッセージを再び原文のまま送信し、`/discard 3-8` はその要約を書き直します。"
            "`/help` ですべてのコマンドが表示されます。"
        ),
        "context_hint_help": "`/help` ですべてのコマンドが表示されます。",
        "context_page_language": "ja",
        "context_page_number": "{number:,}",
        "context_page_share": "{share:.1%}",
        "context_page_amount": "{amount}",
        "context_page_over": "コンテキストウィンドウを {count:,} トークン超えています。",
        "context_page_free": "空き",
        "context_page_turns": "メッセージ（トークン数）",
        "context_page_no_turns": "このチャットにはまだメッセージがありません。",
        "context_page_cost": "費用",
        "context_page_breaks": "キャッシュが途切れた原因",
        "context_page_no_breaks": "これまでありません。",
        "context_page_cause": "原因",
        "context_page_planned": "予定どおり",
        "context_page_uncounted": "未集計",
        "context_page_summaries": "要約",
        "context_page_summary": "メッセージ {first}～{last}",
        "context_page_summary_of_turn": "メッセージ {turn}",
        "context_page_summary_size": "{source_tokens:,} トークンを {tokens:,} トークンに短縮",
        "context_page_restore": "復元",
        "context_page_discard": "破棄",
        "context_page_commands": (
            "「復元」はこれらのメッセージを再び原文のまま送信し、「破棄」は要約を書き直します。`{restore}` "
            "または `{discard}` と入力することもできます。"
        ),
    }
)
JAPANESE: Final = Language(
    "ja",
    _LINES,
    one=frozenset(),
    day="{month}月{day}日",
)
