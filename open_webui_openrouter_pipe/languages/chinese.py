"""Chinese in simplified characters."""
# ruff: noqa: RUF001 - the punctuation is Chinese

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from .language import Language

_LINES: Final = MappingProxyType(
    {
        "joined": "{lines:{separator}}",
        "list_item": "- {line}",
        "sentences": "{first}{second}",
        "dollars": "US${amount:,.{decimals}f}",
        "part_instructions": "指令",
        "part_tools": "工具",
        "part_summaries": "摘要",
        "part_retrieved_text": "检索到的文本",
        "part_note": "关于已省略消息的说明",
        "part_latest_message": "最新消息",
        "part_current_tool_calls": "正在进行的工具调用",
        "part_earlier_turns": "较早的消息",
        "period_day": "每天",
        "period_month": "每月",
        "resets_daily": "每天",
        "resets_weekly": "每周",
        "resets_monthly": "每月",
        "the_image": "图片",
        "the_audio": "录音",
        "the_video": "视频",
        "the_file": "文件",
        "unreadable_event": "OpenRouter 发送了不属于回答的内容。请重试。",
        "unexpected_error": "管道遇到意外错误；详情见服务器日志。",
        "reasoning_rejected": "提供商未接受之前的推理内容；将在不带它的情况下回答。",
        "context_shortened": "提供商计算的令牌数超出了其上下文窗口。",
        "answer_not_saved": "此回答的部分内容未能保存；之后的对话将不带其推理内容。",
        "answer_at_output_limit": "回答已达到输出上限。请点击“继续回答”，或调高 max_tokens。",
        "answer_at_output_limit.no_button": "回答已达到输出上限。请让模型继续，或调高 max_tokens。",
        "answer_filtered": "提供商的内容过滤器中止了回答。",
        "answer_cut_off": "提供商中断了回答。请点击“继续回答”获取其余内容。",
        "answer_cut_off.no_button": "提供商中断了回答。请让模型继续。",
        "answer_empty": "模型没有给出回答就结束了。请再次提问，或选择其他模型。",
        "no_encryption_key": (
            "推理内容和工具结果不会保留，因为没有用于加密的密钥。管理员可以在函数的配置项 "
            "ARTIFACT_ENCRYPTION_KEY 中设置。"
        ),
        "attachment_not_stored": "图片未能存入 Open WebUI 的文件（{reason}）；它保留在对话本身中。",
        "attachment_damaged": "图片已损坏",
        "attachment_storage_failed": "存储失败，详情见服务器日志",
        "attachment_not_a_picture": "模型发送了无法显示的图片格式；可显示的格式有 PNG、JPEG、WebP 和 GIF。",
        "artifacts_unavailable": "{count} 个已保存的项目未能重新加载：数据库不可用。",
        "artifacts_missing": "{count} 个已保存的项目未能重新加载（{details:，}）。",
        "artifacts_not_found": "{count} 个已不存在",
        "artifacts_unreadable": "{count} 个使用其他密钥加密或已损坏",
        "artifacts_too_large": "{count} 个超出大小限制",
        "reading_attachments": "正在读取此对话的附件...",
        "attachments_read": "附件已读取。",
        "attachments_unread_image": "{count} 张图片未发送：此模型不读取图片。",
        "attachments_unread_audio": "{count} 段录音未发送：此模型不读取音频。",
        "attachments_unread_video": "{count} 段视频未发送：此模型不读取视频。",
        "images_omitted": "较早的 {count} 张图片不再展示给模型。",
        "images_too_many": "{count} 张图片未发送：一次请求最多包含 {limit} 张。",
        "too_many_images": "一次请求最多包含 {limit} 张图片",
        "attachments_omitted": "较早的 {count} 个附件不再发送：全部附件合计超过 {megabytes:,.0f} MB。",
        "attachments_too_large": "{count} 个附件未发送：全部附件合计超过 {megabytes:,.0f} MB。",
        "too_large_together": "全部附件合计超过 {megabytes:,.0f} MB",
        "attachment_not_sent": "{name}未发送：{reason}。",
        "attachment_kind": "此模型不读取 {kind} 类型的文件",
        "attachment_unknown": "文件类型未知",
        "attachment_unreadable": "文件无法读取",
        "attachment_too_large": "文件超过 {megabytes:,.0f} MB",
        "document_as_excerpts": "此模型只能收到 Open WebUI 从 {name} 中选取的节选：{reason}。",
        "no_api_key": "未设置 OpenRouter API 密钥。管理员可以在函数的配置项 API_KEY 中设置。",
        "no_api_key.admin": (
            "未设置 OpenRouter API 密钥。请在函数的配置项 API_KEY 中填写；您的密钥在 "
            "https://openrouter.ai/settings/keys 。"
        ),
        "unusable_key": "OpenRouter API 密钥包含密钥中不会出现的字符。管理员可以更正函数的配置项 API_KEY。",
        "unusable_address": "OpenRouter 的地址不可用。管理员可以更正函数的配置项 BASE_URL。",
        "not_openrouter": (
            "OpenRouter 地址上的服务器不是 OpenRouter，或者出现了故障。管理员可以检查函数的配置项 BASE_URL。"
        ),
        "unreachable": "无法连接 OpenRouter：此服务器的网络连接或 OpenRouter 本身出现故障。请一分钟后重试。",
        "unreachable.admin": (
            "无法连接 OpenRouter：此服务器的网络连接或 OpenRouter 本身出现故障。如果持续存在，请检查服务器的"
            "网络和代理、函数的配置项 BASE_URL 以及 https://status.openrouter.ai 。"
        ),
        "no_response": "OpenRouter 在 {seconds:.0f} 秒内没有响应。请重试，或选择其他模型。",
        "no_response.admin": (
            "OpenRouter 在 {seconds:.0f} 秒内没有响应。请重试，或选择其他模型；等待时长可在函数的配置项 "
            "ADVANCED 中设置（REQUEST_TIMEOUT_SECONDS）。"
        ),
        "stream_silent": "OpenRouter 已有 {seconds:.0f} 秒没有发送内容，因此回答到此为止。请重试。",
        "stream_lost": "回答期间与 OpenRouter 的连接中断。请重试。",
        "stream_incomplete": "OpenRouter 在回答完成之前就结束了。请重试。",
        "wait_unknown": "请稍候再试",
        "wait_over": "请立即重试",
        "wait_seconds": "请在 {count} 秒后重试",
        "wait_minutes": "请在大约 {count} 分钟后重试",
        "wait_tomorrow": "请明天再试",
        "wait_hours": "请在大约 {count} 小时后重试",
        "quote": "原文：“{text}”",
        "a_provider": "提供商",
        "the_provider": "提供商 {name}",
        "reasoning_not_accepted": "提供商未接受此对话之前的推理内容。请重试。",
        "too_long": "对话对此模型来说太长。请缩短对话，或选择上下文窗口更大的模型。",
        "too_long_numbers": (
            "对话对此模型来说太长（{requested:,} 个令牌，模型最多接受 {limit:,} 个）。请缩短对话，或选择上下"
            "文窗口更大的模型。"
        ),
        "provider_unavailable": "{provider}目前不可用。{wait}，或选择其他模型。",
        "provider_overloaded": "{provider}目前过载。{wait}，或选择其他模型。",
        "provider_slow": "{provider}响应时间过长。{wait}，或选择更快的模型。",
        "provider_busy": "{provider}目前收到的请求过多。{wait}，或选择其他模型。",
        "provider_busy.admin": (
            "{provider}目前收到的请求过多。{wait}，或选择其他模型。如果经常发生，可以增加额度、在 "
            "OpenRouter 使用提供商自己的密钥或设置备用模型。{quote}"
        ),
        "free_daily_limit": "已达到 OpenRouter 免费模型的每日上限。{wait}，或选择付费模型。",
        "free_daily_limit.admin": (
            "已达到 OpenRouter 免费模型的每日上限。{wait}，或选择付费模型；在 "
            "https://openrouter.ai/settings/credits 充值可提高上限。"
        ),
        "free_limit": "已达到 OpenRouter 免费模型的每分钟上限。{wait}，或选择付费模型。",
        "model_not_found": "OpenRouter 没有此模型。请选择其他模型。",
        "model_deprecated": "OpenRouter 已不再提供此模型。请选择其他模型。",
        "free_variant_ended": "此模型的免费版本已停用。请选择付费版本或其他模型。",
        "region_restricted": "此模型在您所在的地区不提供。请选择其他模型。",
        "privacy_restricted": "此模型没有符合账户隐私设置的提供商。请选择其他模型。",
        "privacy_restricted.admin": (
            "此模型没有符合账户隐私设置的提供商。请选择其他模型，或在 "
            "https://openrouter.ai/settings/privacy 修改设置。"
        ),
        "constraint_filtered": "此模型没有满足请求要求的提供商。请选择其他模型。",
        "constraint_filtered.admin": (
            "此模型没有满足请求要求的提供商。请选择其他模型，或放宽模型的提供商设置。"
        ),
        "no_endpoint": "此模型没有可以处理此请求的提供商。{quote}",
        "no_tool_provider": "此模型没有支持工具的提供商。请关闭工具，或选择其他模型。",
        "no_attachment_provider": "此模型没有能读取这类附件的提供商。请移除附件，或选择其他模型。",
        "no_allowed_provider": "在此服务器的设置下无法使用此模型。请选择其他模型。",
        "no_allowed_provider.admin": (
            "提供商设置排除了此模型的所有提供商。请选择其他模型，或放宽模型或 OpenRouter 账户的设置。"
        ),
        "moderated": "消息被内容审核拒绝。请改写消息，或选择其他模型。",
        "moderated_reasons": "消息被内容审核拒绝（{reasons}）。请改写消息，或选择其他模型。",
        "key_rejected": "OpenRouter 未接受此服务器的 API 密钥。请告知您的管理员。",
        "key_rejected.admin": (
            "OpenRouter 未接受 API 密钥。请检查函数的配置项 API_KEY：有效的密钥在 "
            "https://openrouter.ai/settings/keys 。"
        ),
        "no_credits": (
            "OpenRouter 账户的额度不足以完成此请求。请告知您的管理员；较短的回答或较便宜的模型也许仍然可行。"
        ),
        "no_credits.admin": (
            "OpenRouter 账户的额度不足以完成此请求。请在 https://openrouter.ai/settings/credits 充值，或调低"
            " max_tokens。"
        ),
        "no_credits_numbers": (
            "OpenRouter 账户的额度不足以完成此请求（最多请求 {requested:,} 个令牌，可支付 {affordable:,} 个"
            "）。请告知您的管理员；较短的回答或较便宜的模型也许仍然可行。"
        ),
        "no_credits_numbers.admin": (
            "OpenRouter 账户的额度不足以完成此请求（最多请求 {requested:,} 个令牌，可支付 {affordable:,} 个"
            "）。请在 https://openrouter.ai/settings/credits 充值，或调低 max_tokens。"
        ),
        "access_denied": "OpenRouter 拒绝了此请求。请选择其他模型，或告知您的管理员。{quote}",
        "access_denied.admin": (
            "OpenRouter 拒绝了此请求。请在 https://openrouter.ai/settings 检查账户的防护规则和密钥的权限。"
            "{quote}"
        ),
        "request_too_large": "请求过大，无法发送。请移除或缩小附件，或开始新的对话。",
        "request_rejected": "提供商拒绝了此请求；原样重发不会有帮助。请修改请求，或选择其他模型。{quote}",
        "provider_error": "OpenRouter 返回了错误。请重试，或选择其他模型。{quote}",
        "key_limit_reached": "已达到此服务器的 OpenRouter 密钥的消费上限。请告知您的管理员。",
        "key_limit_reached.admin": (
            "已达到 OpenRouter 密钥的消费上限。请在 https://openrouter.ai/settings/keys 提高上限。"
        ),
        "image_unusable": "提供商无法使用此对话中的一张图片。请移除它，或以其他格式或尺寸重新附加。{quote}",
        "output_too_long": "请求的回答长度超出模型能写的长度。请调低 max_tokens。{quote}",
        "model_refused": "模型拒绝回答。请改写消息，或选择其他模型。",
        "data_residency": "账户关于数据处理地点的规则排除了此模型。请选择其他模型。",
        "data_residency.admin": (
            "账户关于数据处理地点的规则排除了此模型。请选择其他模型，或在 "
            "https://openrouter.ai/settings/privacy 修改规则。"
        ),
        "effort_rejected": "模型不支持此推理强度。请选择其他强度。{quote}",
        "parameter_rejected": "模型不接受请求中的某个参数。请在对话高级设置中移除它。{quote}",
        "effort_replaced": "模型不支持推理强度 `{asked}`；已改用 `{used}` 重新请求。",
        "effort_omitted": "模型不支持推理强度 `{asked}`；已去掉它重新请求。",
        "parameter_omitted": "模型不接受参数 {name}；已去掉它重新请求。",
        "retry_busy": "提供商繁忙；{seconds} 秒后重试（{attempt}/{attempts}）...",
        "retry_unavailable": "提供商不可用；{seconds} 秒后重试（{attempt}/{attempts}）...",
        "retry_unreachable": "无法连接 OpenRouter；{seconds} 秒后重试（{attempt}/{attempts}）...",
        "retry_lost": "OpenRouter 的回答中断；{seconds} 秒后重试（{attempt}/{attempts}）...",
        "retrying": "已重新请求（{attempt}/{attempts}）。",
        "address_paused": "目前无法连接 OpenRouter。{seconds:.0f} 秒后才能再次尝试；请耐心等待。",
        "address_paused.admin": (
            "已连续 {failures} 次无法连接 OpenRouter。{seconds:.0f} 秒后才能再次尝试。如果持续存在，请检查服"
            "务器的网络和代理、函数的配置项 BASE_URL 以及 https://status.openrouter.ai 。"
        ),
        "waiting_for_place": "目前有许多请求正在运行；此请求正在排队...",
        "place_found": "等待结束。",
        "queue_full": "服务器繁忙：排队的请求过多。请一分钟后重试。",
        "queue_full.admin": (
            "此服务器上排队的请求过多。同时运行的数量可在函数的配置项 ADVANCED 中设置（MAX_REQUESTS、"
            "MAX_REQUESTS_PER_USER）。"
        ),
        "queue_slow": "服务器繁忙：此请求已等待其他请求 {seconds:.0f} 秒。请稍后重试。",
        "queue_slow.admin": (
            "此请求已等待其他请求 {seconds:.0f} 秒。同时运行的数量可在函数的配置项 ADVANCED 中设置（"
            "MAX_REQUESTS、MAX_REQUESTS_PER_USER）。"
        ),
        "with_reference": "{line}（参考编号 {reference}）",
        "no_provider_left": (
            "模型的提供商设置与管理员的设置相互排斥，没有剩余的提供商。请选择其他模型；管理员可以放宽设置。"
        ),
        "own_key_rejected": (
            "OpenRouter 未接受您自己的 API 密钥。请在您的配置项中更正或移除它（对话高级设置 → 配置项）。"
        ),
        "own_key_without_credits": (
            "您自己的 OpenRouter 账户额度不足以完成此请求。请在 https://openrouter.ai/settings/credits 充值"
            "，或在您的配置项中移除 API 密钥（对话高级设置 → 配置项）。"
        ),
        "own_key_unreadable": (
            "无法读取您自己的 API 密钥：它是为其他用户加密的，或者服务器的密钥已更改。请在您的配置项中重新填"
            "写或移除它（对话高级设置 → 配置项）。"
        ),
        "search_keeps_data": (
            "未搜索网络：在不保留任何数据的要求下，只有模型的提供商自己可以搜索，而该提供商没有搜索功能。"
        ),
        "searching": "正在搜索网络...",
        "searched": "已搜索网络。",
        "searched_for": "已搜索网络：{query}",
        "search_failed": "搜索未成功。",
        "reading_page": "正在阅读网页...",
        "page_read": "已阅读：{url}",
        "status_ready_advice": "一切正常。请选择一个模型。",
        "status_no_key_advice": (
            "未设置 API 密钥。请在 https://openrouter.ai/settings/keys 创建一个，并在管理员面板 → 函数 → 此"
            "函数的齿轮图标中设置为 `API_KEY`，或设置为服务器的环境变量 `OPENROUTER_API_KEY`。"
        ),
        "status_key_unusable_advice": (
            "配置项中的 `API_KEY` 包含密钥中不会出现的字符。请重新完整复制密钥，不带引号。"
        ),
        "status_key_refused_advice": (
            "OpenRouter 拒绝了 API 密钥：它可能输入有误、已停用或已删除。请在 "
            "https://openrouter.ai/settings/keys 检查，并在配置项中重新设置 `API_KEY`。"
        ),
        "status_key_used_up_advice": (
            "API 密钥的限额已用完。请在 https://openrouter.ai/settings/keys 提高限额，或设置其他密钥。"
        ),
        "status_address_advice": (
            "配置项中的 `BASE_URL` 不是地址：地址以 https:// 或 http:// 加服务器名称开头。默认值为 "
            "https://openrouter.ai/api/v1 。"
        ),
        "status_not_openrouter_advice": (
            "配置项中 `BASE_URL` 处的服务没有模型列表，因此不是 OpenRouter 的 API。默认值为 "
            "https://openrouter.ai/api/v1 ；需要完整路径。"
        ),
        "status_unreachable_advice": (
            "自 {since} 起无法连接 OpenRouter。请检查配置项中的 `BASE_URL`，以及此服务器是否可以连接：网络、"
            "DNS、代理、防火墙。详情见服务器日志。系统会自动重试。"
        ),
        "status_failing_advice": (
            "自 {since} 起 OpenRouter 返回错误。详情见服务器日志，是否有故障见 https://status.openrouter.ai "
            "。系统会自动重试。"
        ),
        "status_loading_advice": "模型列表正在加载。请稍后刷新页面。",
        "status_unmatched_advice": "没有模型符合配置项 `MODELS` 中的模式；`*` 提供所有模型。",
        "status_filtered_advice": "在配置项 `MODELS` 提供的模型中，没有一个满足全部 `MODEL_FILTERS`。",
        "status_unknown_filter_advice": (
            "配置项中的 `MODEL_FILTERS` 有未知的词，更正之前不提供任何模型：{words}。可用的有 `free`、"
            "`tools`、`vision`、`zdr`、`newest`、`no-expiring`、`context>=128k` 和 `price<=2`，以逗号分隔。"
        ),
        "status_zdr_unknown_advice": (
            "尚不清楚哪些模型不保留数据。当 `MODEL_FILTERS` 中有 `zdr` 时，在读取到 OpenRouter 的相应列表之"
            "前不提供任何模型；无法读取的原因见服务器日志。系统会自动重试。"
        ),
        "status_unknown_variant_advice": (
            "`ADVANCED` 中的 `VARIANTS` 有不是变体的条目：{words}。可用的是带变体或预设的模式，例如 "
            "`openai/gpt-5*:nitro`、`anthropic/*@preset/team` 或 `@preset/team`。其余条目照常提供。"
        ),
        "status_models": "提供 {count:,} 个模型。",
        "status_for_users_ready": "OpenRouter 已就绪。请选择其中一个模型。",
        "status_for_users_wait": "目前无法使用 OpenRouter。请几分钟后重试。",
        "status_for_users_ask": "目前无法使用 OpenRouter。需要管理员进行设置；请联系管理员。",
        "key_used": "API 密钥已使用 US${total:,.2f}：本月 US${month:,.2f}，今天 US${today:,.2f}。",
        "key_limit": "其限额为 US${limit:,.2f}；剩余 US${remaining:,.2f}。",
        "key_limit_resets": "其限额为 US${limit:,.2f}（{period}）；剩余 US${remaining:,.2f}。",
        "key_without_limit": "它没有自己的限额；以账户的额度为限。",
        "key_free_tier": (
            "尚未购买额度：只能使用免费模型，且每天的请求数很少。购买额度请前往 "
            "https://openrouter.ai/settings/credits 。"
        ),
        "key_expires": "它将于 {time} 过期。",
        "no_messages": "此请求没有可读取的消息。",
        "no_model": "此请求没有指定模型。",
        "parameters_omitted": "已从您的请求中去掉，因为管理员不允许用户设置：{names}。",
        "download_address_refused": "不允许使用该地址",
        "download_unreachable": "无法连接该服务器",
        "download_refused": "服务器返回状态 {status}",
        "download_broken": "连接中断",
        "download_compressed": "服务器以压缩形式发送",
        "download_redirects": "该地址重定向次数过多",
        "download_too_slow": "用时超过 {seconds:,.0f} 秒",
        "file_not_found": "没有这个文件，或者您无权读取",
        "file_content_missing": "Open WebUI 的存储中已没有其内容",
        "file_unreadable": "无法读取 Open WebUI 的存储",
        "file_not_stored": "Open WebUI 的存储未接受该文件",
        "limits_unreadable": (
            "无法对话：管理员必须更正函数的配置项 SPENDING_LIMITS，其中这一部分无法读取：{part}"
        ),
        "limits_unreadable_admin": (
            "用户无法对话，因为函数的配置项 SPENDING_LIMITS 中的这一部分无法读取：{part}"
        ),
        "limits_unavailable": "未发送任何内容：数据库不可用，无法检查消费限额。请重试。",
        "limit_reached": "{whose}（{period} {amount}）已用完，将于 {when} 重置。未发送任何内容。",
        "limit_near": (
            "{whose}（{period} {amount}）即将用完，将于 {when} 重置：较长的对话会被缩短以降低费用。"
        ),
        "limit_in_use": "未发送任何内容：剩余的消费限额正被其他请求占用。请在它们得到回答后重试。",
        "task_of_declined": "未发送：此对话的消息也没有发送。",
        "limit_waiting": "消费限额所剩不多；正在等待其他回答...",
        "limit_of_user": "您的消费限额",
        "limit_of_group": "群组 {group} 的消费限额",
        "limit_of_all": "所有用户的消费限额",
        "confirm_title": "以约 {cost} 发送？",
        "confirm_cost": (
            "模型为此消息读取约 {tokens:,} 个令牌，其中没有来自提供商缓存的。这需要约 {cost}；回答另计。取消"
            "则不发送，也不产生费用。"
        ),
        "confirm_cost_cached": (
            "模型为此消息读取约 {tokens:,} 个令牌，其中 {cached:,} 个来自提供商的缓存。这需要约 {cost}；回答"
            "另计。取消则不发送，也不产生费用。"
        ),
        "confirm_switch": (
            "{earlier} 的缓存中仍有此对话：在那里此消息需要约 {cached}。{model} 必须重新读取全部内容，需要约"
            " {cost}；回答另计。取消则不发送，也不产生费用。"
        ),
        "declined": "未发送：您没有同意约 {cost} 的费用。未收取任何费用。",
        "cost_line": "{line}",
        "cost_input": "输入 {tokens:,} 个令牌",
        "cost_input_cached": "输入 {tokens:,} 个令牌（缓存 {cached:,}）",
        "cost_output": "输出 {tokens:,}",
        "cost_seconds": "{seconds:,.1f} 秒",
        "cost_speed": "{speed:,.0f} 令牌/秒",
        "next_cost": "下条消息 {cost} 起",
        "next_cost_until": "下条消息 {cached} 起（{when}后 {cold} 起）",
        "tomorrow_at": "明天 {clock}",
        "on_day_at": "{day} {clock}",
        "reasoning_disabled": "推理内容不会保留：管理员已将其关闭，您自己的设置不起作用。",
        "user_limits_not_followed": "您的部分设置不起作用，因为管理员不允许用户设置：{names}。",
        "user_valves_lost": (
            "未发送任何内容，因为您的部分设置无法读取，其中包括谁可以保留您的对话或为其付费：{names}。请在您"
            "的配置项中重新设置并保存（对话高级设置 → 配置项）。"
        ),
        "user_valves_unreadable": (
            "您的部分设置无法读取，不起作用：{names}。请在您的配置项中重新设置（对话高级设置 → 配置项）。"
        ),
        "valves_not_saved": "未保存。{problems}。",
        "valves_lost": (
            "未发送任何内容，因为保护对话或限制其费用的设置无法读取：{names}。管理员必须在函数的配置项中重新"
            "设置。"
        ),
        "summary_failure_empty": "模型的回答为空",
        "summary_failure_malformed": "模型的回答格式不符合预期",
        "summary_failure_longer_than_its_source": "摘要比原文还长",
        "summary_failure_repeats_its_prompt": "模型重复了给它的指令",
        "summary_failure_cut_off": "模型的回答被截断",
        "summary_failure_calls_a_tool": "模型调用了工具",
        "summary_failure_reasoning_only": "模型只进行了推理而没有回答",
        "summary_failure_refused": "模型拒绝了",
        "summary_failure_not_grounded": "摘要包含对话中没有的细节",
        "summary_failure_no_content": "模型的回答没有内容",
        "summary_failure_too_short": "摘要太短",
        "summary_failure_not_about_its_source": "摘要与对话无关",
        "summary_failure_timed_out": "模型用时过长",
        "summary_failure_claimed_elsewhere": "另一个服务器进程正在处理",
        "summary_failure_database_unavailable": "数据库不可用",
        "summary_failure_provider": "提供商返回了错误",
        "summary_failure_unexpected_error": "意外错误",
        "window_too_small": "模型的上下文窗口为 {window_tokens:,} 个令牌，没有留给输入的空间。",
        "window_too_small_advice": "请选择上下文窗口更大的模型。",
        "overflow": (
            "此请求需要约 {needed_tokens:,} 个令牌，但模型的上下文窗口为 {window_tokens:,} 个，除去回答后只"
            "能容纳 {limit_tokens:,} 个。"
        ),
        "overflow_largest": "您可以更改的最大部分是：{largest}，{tokens:,} 个令牌。",
        "overflow_instructions": "请缩短系统提示词，或选择上下文窗口更大的模型。",
        "overflow_tools": "请关闭此对话不需要的工具。",
        "overflow_summaries": "请开始新的对话。",
        "overflow_retrieved_text": "请减少附加的文档，或减少要求的来源。",
        "overflow_note": "请开始新的对话。",
        "overflow_latest_message": "请缩短您的消息或其附件，或分几次发送。",
        "overflow_current_tool_calls": "请一次少要求一些，以减少工具调用。",
        "overflow_earlier_turns": "请开始新的对话，或选择上下文窗口更大的模型。",
        "turns_omitted": "较早的 {of} 条消息中有 {count} 条连同回答被省略：约 {tokens:,} 个令牌。",
        "turns_clipped": "只将此对话的最后 {count} 条消息发送给模型。",
        "turns_shortened": "较早的 {of} 条消息中有 {count} 条连同回答被缩短：约减少 {tokens:,} 个令牌。",
        "results_stated": "{count} 个工具结果被缩减为关键信息：约减少 {tokens:,} 个令牌。",
        "results_capped": "{count} 个较长的工具结果只保留了开头和结尾：约减少 {tokens:,} 个令牌。",
        "retrieved_cut": "检索到的文本只保留了开头：{of:,} 个令牌中约 {tokens:,} 个被省略。",
        "retrieved_omitted": "检索到的文本被省略：约 {tokens:,} 个令牌。",
        "tools_omitted": (
            "为适应模型的上下文窗口，省略了 Open WebUI 的 {count} 个内置工具：约 {tokens:,} 个令牌。管理员可"
            "以为此模型关闭它们。"
        ),
        "summarizing": "正在总结对话（{tokens:,} 个令牌）...",
        "summarized": "已总结：{before_tokens:,} → {after_tokens:,} 个令牌",
        "summarized_cost": "{line}（{cost}）",
        "summarized_partly": "{line}；有一部分未能总结：{reason}。",
        "not_summarized": "对话未能总结：{reason}。",
        "help_title": (
            "将以下命令之一单独作为一条消息输入。命令在此直接回答，不使用模型，任何模型也看不到它。"
        ),
        "help_context": "`/context`：下次请求由哪些部分组成，以及此对话已花费多少。",
        "help_compact": (
            "`/compact` 或 `/compact what to keep`（要保留的内容）：立即总结除最新消息以外的全部内容；只有此"
            "命令会产生费用。"
        ),
        "help_restore": "`/restore` 或 `/restore 3-8`：重新逐字发送较早的消息。",
        "help_discard": "`/discard` 或 `/discard 3-8`：重新撰写较早消息的摘要。",
        "help_aim": (
            "`/aim faithful` 发送尽可能多的对话内容，`/aim thrifty` 以最低费用发送；从现在起在此对话中生效。"
        ),
        "help_aim_now": "此对话按目标 `{aim}` 发送。",
        "help_drawing": (
            "此模型只能绘图：`/compact` 需要在配置项 SUMMARY_MODEL 中设置其他模型，其余命令照常可用。"
        ),
        "command_misused": "`/{name}` 不能这样使用。{usage}",
        "aim_set": "从现在起此对话采用目标 `{aim}`。",
        "aim_kept": "此对话已采用目标 `{aim}`。",
        "compact_waiting": "{line}最多需要 {seconds:.0f} 秒。",
        "compact_done": (
            "前 {count} 条消息已连同回答总结：下次请求约有 {after:,} 个令牌，而不是 {before:,} 个。"
        ),
        "compact_done_again": "前 {count} 条消息已连同回答总结：下次请求约有 {after:,} 个令牌。",
        "compact_cost": "摘要花费了 {cost}。",
        "compact_kept": "摘要已经存在，没有产生费用。",
        "compact_failed": "摘要未能写成：{reason}。下一条消息会再次尝试；`/restore` 可撤销此命令。",
        "compact_too_short": "未总结任何内容：最新消息之前的内容太短，或已经总结过。",
        "compact_off": (
            "未总结任何内容：此处已关闭摘要。管理员可以将配置项 CONTEXT_STRATEGY 设为 `summarize`。"
        ),
        "restored": (
            "从现在起重新逐字发送：第 {turns} 条消息。这样一次请求约有 {after:,} 个令牌，而不是 {before:,} "
            "个。"
        ),
        "restored_partly": "除此之外没有空间容纳第 {turns} 条消息。",
        "restore_nothing": "这些消息已全部逐字发送。",
        "restore_no_room": ("没有空间逐字发送第 {turns} 条消息。请指定更少的消息，或选择窗口更大的模型。"),
        "no_such_turns": "此对话没有这些消息：它共有 {turns} 条。",
        "discarded": "已舍弃 {count} 个摘要。发送下一条消息时会重新撰写。",
        "discard_nothing": "这些消息没有对应的摘要。",
        "context_title": "对 {model} 的下次请求",
        "context_window": "约 {tokens:,} 个令牌，上下文窗口共 {window_tokens:,} 个，占 {share:.0%}。",
        "context_window_unknown": "约 {tokens:,} 个令牌；模型的上下文窗口大小未知。",
        "context_aim_faithful": "目标是 `faithful`：发送尽可能多的对话内容。",
        "context_aim_thrifty": "目标是 `thrifty`：以最低费用发送。",
        "context_part": "部分",
        "context_tokens": "令牌",
        "context_share": "占比",
        "context_part_system": "系统提示词和来源",
        "context_part_tools": "工具",
        "context_part_summaries": "摘要",
        "context_part_shortened": "已缩短的消息",
        "context_part_recalled": "查回的段落",
        "context_part_verbatim": "逐字发送的消息",
        "context_part_attachments": "附件",
        "context_part_reserve": "为回答预留",
        "context_turn": "消息",
        "context_wrote": "您写的内容",
        "context_sent": "已发送",
        "context_original": "原有",
        "context_state": "状态",
        "context_cached": "已缓存",
        "context_state_verbatim": "逐字",
        "context_state_shortened": "已缩短",
        "context_state_summarized": "已总结",
        "context_state_dropped": "已省略",
        "context_yes": "是",
        "context_no": "否",
        "context_earlier_turns": "较早的 {count} 条消息",
        "context_cost": "此对话至今花费 {cost}，共 {count} 次请求。",
        "context_read": "其输入的 {share:.0%} 从提供商的缓存读取，费用为 {cost}。",
        "context_saved": "如果不用缓存发送整个对话，会多花 {cost}。",
        "context_breaks": "使提供商重新读取对话的原因，最新的在前：",
        "context_break_turn": "第 {turn} 条消息",
        "context_break_start": "第一条消息之前",
        "context_cause_retention": "缩短了旧的工具结果",
        "context_cause_clip": "只发送最后的消息",
        "context_cause_summary": "总结了旧消息",
        "context_cause_prune": "缩短了旧消息",
        "context_cause_evict": "省略了旧消息",
        "context_cause_recall": "加入了查找已移除内容的工具",
        "context_cause_restore": "恢复了消息，或消息已容纳不下",
        "context_cause_discard": "舍弃了摘要",
        "context_cause_clock": "系统提示词中的时间或数字有变",
        "context_cause_memory": "Open WebUI 的记忆有变",
        "context_cause_prompt": "系统提示词有变",
        "context_cause_tools": "工具有变",
        "context_cause_settings": "某个参数有变",
        "context_cause_reasoning": "较早回答的推理内容有变",
        "context_cause_results": "较早的工具结果有变",
        "context_cause_attachments": "较早的附件有变",
        "context_cause_sources": "检索到的文本有变",
        "context_cause_edit": "修改了较早的消息",
        "context_cause_plan": "较早消息的缩短方式与之前不同",
        "context_cause_unknown": "原因未知",
        "context_summary": "第 {first} 至 {last} 条消息的摘要：{tokens:,} 个令牌，原为 {source_tokens:,} 个",
        "context_summary_missing": "发送下一条消息时会总结第 {first} 至 {last} 条消息。",
        "context_as_text": "文字版",
        "context_hint": (
            "`/restore 3-8` 重新逐字发送消息，`/discard 3-8` 重新撰写其摘要；`/help` 列出所有命令。"
        ),
        "context_hint_help": "`/help` 列出所有命令。",
        "context_page_language": "zh-CN",
        "context_page_number": "{number:,}",
        "context_page_share": "{share:.1%}",
        "context_page_amount": "{amount}",
        "context_page_over": "超出上下文窗口 {count:,} 个令牌。",
        "context_page_free": "空闲",
        "context_page_turns": "消息（令牌数）",
        "context_page_no_turns": "此对话还没有消息。",
        "context_page_cost": "费用",
        "context_page_breaks": "缓存中断的原因",
        "context_page_no_breaks": "至今没有。",
        "context_page_cause": "原因",
        "context_page_planned": "计划内",
        "context_page_uncounted": "未计入",
        "context_page_summaries": "摘要",
        "context_page_summary": "第 {first} 至 {last} 条消息",
        "context_page_summary_of_turn": "第 {turn} 条消息",
        "context_page_summary_size": "{tokens:,} 个令牌，原为 {source_tokens:,} 个",
        "context_page_restore": "恢复",
        "context_page_discard": "舍弃",
        "context_page_commands": (
            "“恢复”会重新逐字发送这些消息，“舍弃”会重新撰写摘要。您也可以输入 `{restore}` 或 `{discard}`。"
        ),
    }
)
CHINESE: Final = Language(
    "zh",
    _LINES,
    one=frozenset(),
    day="{month}月{day}日",
)
