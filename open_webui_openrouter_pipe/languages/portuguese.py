"""Brazilian Portuguese; valves are "configurações" there, as Open WebUI has it."""
# ruff: noqa: RUF001 - no-break spaces stand where a line must not break

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from .language import Language

_LINES: Final = MappingProxyType(
    {
        "joined": "{lines:{separator}}",
        "list_item": "- {line}",
        "sentences": "{first} {second}",
        "dollars": "US$ {amount:,.{decimals}f}",
        "part_instructions": "instruções",
        "part_tools": "ferramentas",
        "part_summaries": "resumos",
        "part_retrieved_text": "texto recuperado",
        "part_note": "nota sobre as mensagens omitidas",
        "part_latest_message": "última mensagem",
        "part_current_tool_calls": "chamadas de ferramentas em andamento",
        "part_earlier_turns": "mensagens anteriores",
        "period_day": "por dia",
        "period_month": "por mês",
        "resets_daily": "por dia",
        "resets_weekly": "por semana",
        "resets_monthly": "por mês",
        "the_image": "A imagem",
        "the_audio": "A gravação",
        "the_video": "O vídeo",
        "the_file": "O arquivo",
        "unreadable_event": "O OpenRouter enviou algo que não faz parte de uma resposta. Tente novamente.",
        "unexpected_error": "O pipe encontrou um erro inesperado; os detalhes estão no log do servidor.",
        "reasoning_rejected": "O provedor não aceitou o raciocínio anterior; a resposta será dada sem ele.",
        "context_shortened": "O provedor contou mais tokens do que cabem na sua janela de contexto.",
        "answer_not_saved": (
            "Partes desta resposta não puderam ser salvas; o chat continuará sem o raciocínio dela."
        ),
        "answer_at_output_limit": (
            "A resposta parou no limite de saída. Clique em “Continuar Resposta” ou aumente max_tokens."
        ),
        "answer_at_output_limit.no_button": (
            "A resposta parou no limite de saída. Peça ao modelo que continue ou aumente max_tokens."
        ),
        "answer_filtered": "O filtro de conteúdo do provedor interrompeu a resposta.",
        "answer_cut_off": (
            "O provedor cortou a resposta. Clique em “Continuar Resposta” para obter o restante."
        ),
        "answer_cut_off.no_button": "O provedor cortou a resposta. Peça ao modelo que continue.",
        "answer_empty": "O modelo terminou sem dar uma resposta. Pergunte novamente ou escolha outro modelo.",
        "no_encryption_key": (
            "O raciocínio e os resultados de ferramentas não são mantidos, porque não há chave para "
            "criptografá-los. Um administrador pode defini-la na configuração ARTIFACT_ENCRYPTION_KEY da "
            "função."
        ),
        "attachment_not_stored": (
            "A imagem não pôde ser salva entre os arquivos do Open WebUI ({reason}); ela fica no próprio "
            "chat."
        ),
        "attachment_damaged": "está danificada",
        "attachment_storage_failed": "o armazenamento falhou, os detalhes estão no log do servidor",
        "attachment_not_a_picture": (
            "O modelo enviou uma imagem de um formato que não é exibido; PNG, JPEG, WebP e GIF são."
        ),
        "artifacts_unavailable": (
            "{count} itens salvos não puderam ser recarregados: o banco de dados está indisponível."
        ),
        "artifacts_unavailable.one": (
            "{count} item salvo não pôde ser recarregado: o banco de dados está indisponível."
        ),
        "artifacts_missing": "{count} itens salvos não puderam ser recarregados ({details}).",
        "artifacts_missing.one": "{count} item salvo não pôde ser recarregado ({details}).",
        "artifacts_not_found": "não existem mais: {count}",
        "artifacts_unreadable": "criptografados com outra chave ou danificados: {count}",
        "artifacts_too_large": "acima do tamanho máximo: {count}",
        "reading_attachments": "Lendo os anexos deste chat...",
        "attachments_read": "Os anexos foram lidos.",
        "attachments_unread_image": "{count} imagens não foram enviadas: este modelo não lê imagens.",
        "attachments_unread_image.one": "{count} imagem não foi enviada: este modelo não lê imagens.",
        "attachments_unread_audio": "{count} gravações não foram enviadas: este modelo não lê áudio.",
        "attachments_unread_audio.one": "{count} gravação não foi enviada: este modelo não lê áudio.",
        "attachments_unread_video": "{count} vídeos não foram enviados: este modelo não lê vídeo.",
        "attachments_unread_video.one": "{count} vídeo não foi enviado: este modelo não lê vídeo.",
        "images_omitted": "{count} imagens anteriores não são mais mostradas ao modelo.",
        "images_omitted.one": "{count} imagem anterior não é mais mostrada ao modelo.",
        "images_too_many": "{count} imagens não foram enviadas: uma solicitação comporta no máximo {limit}.",
        "images_too_many.one": "{count} imagem não foi enviada: uma solicitação comporta no máximo {limit}.",
        "too_many_images": "uma solicitação comporta no máximo {limit} imagens",
        "attachments_omitted": (
            "{count} anexos anteriores não são mais enviados: todos juntos passam de {megabytes:,.0f} MB."
        ),
        "attachments_omitted.one": (
            "{count} anexo anterior não é mais enviado: todos juntos passam de {megabytes:,.0f} MB."
        ),
        "attachments_too_large": (
            "{count} anexos não foram enviados: todos juntos passam de {megabytes:,.0f} MB."
        ),
        "attachments_too_large.one": (
            "{count} anexo não foi enviado: todos juntos passam de {megabytes:,.0f} MB."
        ),
        "too_large_together": "todos juntos passam de {megabytes:,.0f} MB",
        "attachment_not_sent": "{name}: não foi possível enviar ({reason}).",
        "attachment_kind": "este modelo não lê arquivos do tipo {kind}",
        "attachment_unknown": "tipo de arquivo desconhecido",
        "attachment_unreadable": "não é possível ler o arquivo",
        "attachment_too_large": "o arquivo passa de {megabytes:,.0f} MB",
        "document_as_excerpts": (
            "De {name}, este modelo recebe apenas trechos escolhidos pelo Open WebUI: {reason}."
        ),
        "no_api_key": (
            "Nenhuma chave de API do OpenRouter está definida. Um administrador pode defini-la na "
            "configuração API_KEY da função."
        ),
        "no_api_key.admin": (
            "Nenhuma chave de API do OpenRouter está definida. Insira uma na configuração API_KEY da "
            "função; as suas estão em https://openrouter.ai/settings/keys."
        ),
        "unusable_key": (
            "A chave de API do OpenRouter tem caracteres que nenhuma chave tem. Um administrador pode "
            "corrigir a configuração API_KEY da função."
        ),
        "unusable_address": (
            "O endereço do OpenRouter não pode ser usado. Um administrador pode corrigir a configuração "
            "BASE_URL da função."
        ),
        "not_openrouter": (
            "O servidor no endereço do OpenRouter não é o OpenRouter, ou está com defeito. Um administrador "
            "pode verificar a configuração BASE_URL da função."
        ),
        "unreachable": (
            "Não foi possível acessar o OpenRouter: a conexão deste servidor, ou o próprio OpenRouter, está "
            "fora do ar. Tente novamente em um minuto."
        ),
        "unreachable.admin": (
            "Não foi possível acessar o OpenRouter: a conexão deste servidor, ou o próprio OpenRouter, está "
            "fora do ar. Se persistir, verifique a rede e o proxy do servidor, a configuração BASE_URL da "
            "função e https://status.openrouter.ai."
        ),
        "no_response": (
            "O OpenRouter não respondeu em {seconds:.0f} segundos. Tente novamente ou escolha outro modelo."
        ),
        "no_response.admin": (
            "O OpenRouter não respondeu em {seconds:.0f} segundos. Tente novamente ou escolha outro modelo; "
            "a configuração ADVANCED da função pode definir quanto tempo esperar (REQUEST_TIMEOUT_SECONDS)."
        ),
        "stream_silent": (
            "O OpenRouter não enviou nada por {seconds:.0f} segundos, por isso a resposta termina aqui. "
            "Tente novamente."
        ),
        "stream_lost": "A conexão com o OpenRouter foi perdida durante a resposta. Tente novamente.",
        "stream_incomplete": (
            "O OpenRouter encerrou a resposta antes que estivesse completa. Tente novamente."
        ),
        "wait_unknown": "Tente novamente daqui a pouco",
        "wait_over": "Tente novamente agora",
        "wait_seconds": "Tente novamente em {count} segundos",
        "wait_seconds.one": "Tente novamente em {count} segundo",
        "wait_minutes": "Tente novamente em cerca de {count} minutos",
        "wait_tomorrow": "Tente novamente amanhã",
        "wait_hours": "Tente novamente em cerca de {count} horas",
        "quote": "Mensagem: “{text}”",
        "a_provider": "O provedor",
        "the_provider": "O provedor {name}",
        "reasoning_not_accepted": "O provedor não aceitou o raciocínio anterior deste chat. Tente novamente.",
        "too_long": (
            "O chat é longo demais para este modelo. Encurte-o ou escolha um modelo com janela de contexto "
            "maior."
        ),
        "too_long_numbers": (
            "O chat é longo demais para este modelo ({requested:,} tokens, o modelo aceita {limit:,}). "
            "Encurte-o ou escolha um modelo com janela de contexto maior."
        ),
        "provider_unavailable": "{provider} não está disponível no momento. {wait} ou escolha outro modelo.",
        "provider_overloaded": "{provider} está sobrecarregado no momento. {wait} ou escolha outro modelo.",
        "provider_slow": "{provider} demorou demais para responder. {wait} ou escolha um modelo mais rápido.",
        "provider_busy": (
            "{provider} está recebendo solicitações demais no momento. {wait} ou escolha outro modelo."
        ),
        "provider_busy.admin": (
            "{provider} está recebendo solicitações demais no momento. {wait} ou escolha outro modelo. Se "
            "acontecer com frequência, ajudam mais créditos, uma chave do próprio provedor no OpenRouter ou "
            "modelos alternativos. {quote}"
        ),
        "free_daily_limit": (
            "O limite diário dos modelos gratuitos do OpenRouter foi atingido. {wait} ou escolha um modelo "
            "pago."
        ),
        "free_daily_limit.admin": (
            "O limite diário dos modelos gratuitos do OpenRouter foi atingido. {wait} ou escolha um modelo "
            "pago; créditos em https://openrouter.ai/settings/credits aumentam o limite."
        ),
        "free_limit": (
            "O limite por minuto dos modelos gratuitos do OpenRouter foi atingido. {wait} ou escolha um "
            "modelo pago."
        ),
        "model_not_found": "O OpenRouter não conhece este modelo. Escolha outro.",
        "model_deprecated": "O OpenRouter não oferece mais este modelo. Escolha outro.",
        "free_variant_ended": (
            "A variante gratuita deste modelo não existe mais. Escolha a paga ou outro modelo."
        ),
        "region_restricted": "Este modelo não é oferecido na sua região. Escolha outro.",
        "privacy_restricted": (
            "Nenhum provedor deste modelo atende às configurações de privacidade da conta. Escolha outro "
            "modelo."
        ),
        "privacy_restricted.admin": (
            "Nenhum provedor deste modelo atende às configurações de privacidade da conta. Escolha outro "
            "modelo ou altere-as em https://openrouter.ai/settings/privacy."
        ),
        "constraint_filtered": (
            "Nenhum provedor deste modelo atende aos requisitos da solicitação. Escolha outro modelo."
        ),
        "constraint_filtered.admin": (
            "Nenhum provedor deste modelo atende aos requisitos da solicitação. Escolha outro modelo ou "
            "afrouxe as configurações de provedores do modelo."
        ),
        "no_endpoint": "Nenhum provedor deste modelo pode atender a esta solicitação. {quote}",
        "no_tool_provider": (
            "Nenhum provedor deste modelo oferece suporte a ferramentas. Desative as ferramentas ou escolha "
            "outro modelo."
        ),
        "no_attachment_provider": (
            "Nenhum provedor deste modelo lê este tipo de anexo. Remova-o ou escolha outro modelo."
        ),
        "no_allowed_provider": (
            "Este modelo não está disponível com as configurações deste servidor. Escolha outro."
        ),
        "no_allowed_provider.admin": (
            "As configurações de provedores excluem todos os provedores deste modelo. Escolha outro modelo "
            "ou afrouxe as configurações do modelo ou da conta do OpenRouter."
        ),
        "moderated": "A mensagem foi recusada pela moderação. Reformule-a ou escolha outro modelo.",
        "moderated_reasons": (
            "A mensagem foi recusada pela moderação ({reasons}). Reformule-a ou escolha outro modelo."
        ),
        "key_rejected": "O OpenRouter não aceitou a chave de API deste servidor. Avise o seu administrador.",
        "key_rejected.admin": (
            "O OpenRouter não aceitou a chave de API. Verifique a configuração API_KEY da função: as chaves "
            "válidas estão em https://openrouter.ai/settings/keys."
        ),
        "no_credits": (
            "A conta do OpenRouter não tem créditos suficientes para esta solicitação. Avise o seu "
            "administrador; uma resposta mais curta ou um modelo mais barato talvez ainda seja possível."
        ),
        "no_credits.admin": (
            "A conta do OpenRouter não tem créditos suficientes para esta solicitação. Adicione créditos em "
            "https://openrouter.ai/settings/credits ou reduza max_tokens."
        ),
        "no_credits_numbers": (
            "A conta do OpenRouter não tem créditos suficientes para esta solicitação (até {requested:,} "
            "tokens foram solicitados, {affordable:,} podem ser pagos). Avise o seu administrador; uma "
            "resposta mais curta ou um modelo mais barato talvez ainda seja possível."
        ),
        "no_credits_numbers.admin": (
            "A conta do OpenRouter não tem créditos suficientes para esta solicitação (até {requested:,} "
            "tokens foram solicitados, {affordable:,} podem ser pagos). Adicione créditos em "
            "https://openrouter.ai/settings/credits ou reduza max_tokens."
        ),
        "access_denied": (
            "O OpenRouter recusou esta solicitação. Escolha outro modelo ou avise o seu administrador. "
            "{quote}"
        ),
        "access_denied.admin": (
            "O OpenRouter recusou esta solicitação. Verifique os limites de uso (guardrails) da conta e as "
            "permissões da chave em https://openrouter.ai/settings. {quote}"
        ),
        "request_too_large": (
            "A solicitação é grande demais para ser enviada. Remova ou reduza anexos, ou comece um novo chat."
        ),
        "request_rejected": (
            "O provedor rejeitou a solicitação; enviá-la de novo sem mudanças não vai adiantar. Altere-a ou "
            "escolha outro modelo. {quote}"
        ),
        "provider_error": (
            "O OpenRouter respondeu com um erro. Tente novamente ou escolha outro modelo. {quote}"
        ),
        "key_limit_reached": (
            "O limite de gastos da chave do OpenRouter deste servidor foi atingido. Avise o seu "
            "administrador."
        ),
        "key_limit_reached.admin": (
            "O limite de gastos da chave do OpenRouter foi atingido. Aumente-o em "
            "https://openrouter.ai/settings/keys."
        ),
        "image_unusable": (
            "O provedor não consegue usar uma imagem deste chat. Remova-a ou anexe-a em outro formato ou "
            "tamanho. {quote}"
        ),
        "output_too_long": (
            "A solicitação pede uma resposta mais longa do que o modelo consegue escrever. Reduza "
            "max_tokens. {quote}"
        ),
        "model_refused": "O modelo se recusou a responder. Reformule a mensagem ou escolha outro modelo.",
        "data_residency": (
            "As regras da conta sobre onde os dados podem ser processados excluem este modelo. Escolha outro."
        ),
        "data_residency.admin": (
            "As regras da conta sobre onde os dados podem ser processados excluem este modelo. Escolha "
            "outro ou altere-as em https://openrouter.ai/settings/privacy."
        ),
        "effort_rejected": "O modelo não conhece este esforço de raciocínio. Escolha outro. {quote}",
        "parameter_rejected": (
            "O modelo não aceita um dos parâmetros da solicitação. Remova-o dos controles do chat. {quote}"
        ),
        "effort_replaced": (
            "O modelo não conhece o esforço de raciocínio `{asked}`; perguntado novamente com `{used}`."
        ),
        "effort_omitted": (
            "O modelo não conhece o esforço de raciocínio `{asked}`; perguntado novamente sem ele."
        ),
        "parameter_omitted": "O modelo não aceita o parâmetro {name}; perguntado novamente sem ele.",
        "retry_busy": "O provedor está ocupado; nova tentativa em {seconds} s ({attempt} de {attempts})...",
        "retry_unavailable": (
            "O provedor não está disponível; nova tentativa em {seconds} s ({attempt} de {attempts})..."
        ),
        "retry_unreachable": (
            "Não é possível acessar o OpenRouter; nova tentativa em {seconds} s ({attempt} de {attempts})..."
        ),
        "retry_lost": (
            "A resposta do OpenRouter foi interrompida; nova tentativa em {seconds} s ({attempt} de "
            "{attempts})..."
        ),
        "retrying": "Perguntado novamente ({attempt} de {attempts}).",
        "address_paused": (
            "Não é possível acessar o OpenRouter no momento. A próxima tentativa será possível em "
            "{seconds:.0f} segundos; aguarde até lá."
        ),
        "address_paused.admin": (
            "Não foi possível acessar o OpenRouter {failures} vezes seguidas. A próxima tentativa será "
            "possível em {seconds:.0f} segundos. Se persistir, verifique a rede e o proxy do servidor, a "
            "configuração BASE_URL da função e https://status.openrouter.ai."
        ),
        "waiting_for_place": "Há muitas solicitações em andamento; esta aguarda a sua vez...",
        "place_found": "A espera terminou.",
        "queue_full": (
            "Este servidor está ocupado: há solicitações demais na fila. Tente novamente em um minuto."
        ),
        "queue_full.admin": (
            "Há solicitações demais na fila deste servidor. A configuração ADVANCED da função pode definir "
            "quantas são executadas (MAX_REQUESTS, MAX_REQUESTS_PER_USER)."
        ),
        "queue_slow": (
            "Este servidor está ocupado: a solicitação esperou {seconds:.0f} segundos até que outras "
            "terminassem. Tente novamente mais tarde."
        ),
        "queue_slow.admin": (
            "A solicitação esperou {seconds:.0f} segundos até que outras terminassem. A configuração "
            "ADVANCED da função pode definir quantas são executadas (MAX_REQUESTS, MAX_REQUESTS_PER_USER)."
        ),
        "with_reference": "{line} (referência {reference})",
        "no_provider_left": (
            "As configurações de provedores do modelo e as do administrador se excluem, de modo que não "
            "resta nenhum provedor. Escolha outro modelo; um administrador pode afrouxar as configurações."
        ),
        "own_key_rejected": (
            "O OpenRouter não aceitou a sua própria chave de API. Corrija-a ou remova-a nas suas "
            "configurações (Controles → Configurações)."
        ),
        "own_key_without_credits": (
            "A sua própria conta do OpenRouter não tem créditos suficientes para esta solicitação. Adicione "
            "créditos em https://openrouter.ai/settings/credits ou remova a sua chave de API nas suas "
            "configurações (Controles → Configurações)."
        ),
        "own_key_unreadable": (
            "Não é possível ler a sua própria chave de API: ela foi criptografada para outro usuário, ou a "
            "chave secreta do servidor mudou. Insira-a novamente, ou remova-a, nas suas configurações "
            "(Controles → Configurações)."
        ),
        "search_keeps_data": (
            "A web não é pesquisada: se ninguém pode manter dados, só o próprio provedor do modelo pode "
            "pesquisar, e este não tem pesquisa."
        ),
        "searching": "Pesquisando na web...",
        "searched": "A web foi pesquisada.",
        "searched_for": "Pesquisado na web: {query}",
        "search_failed": "A pesquisa não teve sucesso.",
        "reading_page": "Lendo uma página da web...",
        "page_read": "Página lida: {url}",
        "status_ready_advice": "Está tudo em ordem. Escolha um dos modelos.",
        "status_no_key_advice": (
            "Nenhuma chave de API está definida. Crie uma em https://openrouter.ai/settings/keys. Defina-a "
            "como `API_KEY` em Painel do Admin → Funções → a engrenagem desta função, ou como variável de "
            "ambiente `OPENROUTER_API_KEY` do servidor."
        ),
        "status_key_unusable_advice": (
            "`API_KEY` nas configurações tem caracteres que nenhuma chave tem. Copie a chave novamente, "
            "inteira e sem aspas."
        ),
        "status_key_refused_advice": (
            "O OpenRouter recusa a chave de API: ela foi digitada errada, desativada ou excluída. "
            "Verifique-a em https://openrouter.ai/settings/keys e defina `API_KEY` novamente nas "
            "configurações."
        ),
        "status_key_used_up_advice": (
            "Não resta nada do limite da chave de API. Aumente-o em https://openrouter.ai/settings/keys ou "
            "defina outra chave."
        ),
        "status_address_advice": (
            "`BASE_URL` nas configurações não é um endereço: ele começa com https:// ou http:// e o nome de "
            "um servidor. O padrão é https://openrouter.ai/api/v1."
        ),
        "status_not_openrouter_advice": (
            "O que responde em `BASE_URL` nas configurações não tem lista de modelos, portanto não é a API "
            "do OpenRouter. O padrão é https://openrouter.ai/api/v1; é preciso o caminho completo."
        ),
        "status_unreachable_advice": (
            "Não é possível acessar o OpenRouter desde {since}. Verifique `BASE_URL` nas configurações e se "
            "este servidor pode se conectar: rede, DNS, proxy, firewall. Os detalhes estão no log do "
            "servidor. Novas tentativas são feitas automaticamente."
        ),
        "status_failing_advice": (
            "O OpenRouter responde com erros desde {since}. Os detalhes estão no log do servidor, e "
            "https://status.openrouter.ai informa se há uma falha. Novas tentativas são feitas "
            "automaticamente."
        ),
        "status_loading_advice": "A lista de modelos está a caminho. Recarregue a página em instantes.",
        "status_unmatched_advice": (
            "Nenhum modelo corresponde aos padrões de `MODELS` nas configurações; `*` oferece todos os "
            "modelos."
        ),
        "status_filtered_advice": (
            "Dos modelos que `MODELS` oferece nas configurações, nenhum cumpre todos os `MODEL_FILTERS`."
        ),
        "status_unknown_filter_advice": (
            "`MODEL_FILTERS` nas configurações tem palavras desconhecidas, e nenhum modelo é oferecido até "
            "a correção: {words}. São aceitos `free`, `tools`, `vision`, `zdr`, `newest`, `no-expiring`, "
            "`context>=128k` e `price<=2`, separados por vírgulas."
        ),
        "status_zdr_unknown_advice": (
            "Ainda não se sabe quais modelos não mantêm dados. Com `zdr` em `MODEL_FILTERS`, nenhum modelo "
            "é oferecido até que a lista do OpenRouter tenha sido lida; o log do servidor diz por que não "
            "pôde ser. Novas tentativas são feitas automaticamente."
        ),
        "status_unknown_variant_advice": (
            "`VARIANTS` em `ADVANCED` tem entradas que não são variantes: {words}. São aceitos padrões com "
            "uma variante ou uma predefinição, como `openai/gpt-5*:nitro`, `anthropic/*@preset/team` ou "
            "`@preset/team`. As demais são oferecidas."
        ),
        "status_models": "{count:,} modelos são oferecidos.",
        "status_models.one": "{count:,} modelo é oferecido.",
        "status_for_users_ready": "O OpenRouter está pronto. Escolha um dos seus modelos.",
        "status_for_users_wait": (
            "O OpenRouter não pode ser usado no momento. Tente novamente em alguns minutos."
        ),
        "status_for_users_ask": (
            "O OpenRouter não pode ser usado atualmente. Um administrador precisa configurá-lo; fale com um."
        ),
        "key_used": (
            "A chave de API gastou US$ {total:,.2f}: US$ {month:,.2f} neste mês, US$ {today:,.2f} hoje."
        ),
        "key_limit": "O limite dela é de US$ {limit:,.2f}; restam US$ {remaining:,.2f}.",
        "key_limit_resets": "O limite dela é de US$ {limit:,.2f} ({period}); restam US$ {remaining:,.2f}.",
        "key_without_limit": "Ela não tem limite próprio; os créditos da conta a limitam.",
        "key_free_tier": (
            "Ainda não foram comprados créditos: só modelos gratuitos podem ser usados, com poucas "
            "solicitações por dia. Os créditos estão em https://openrouter.ai/settings/credits."
        ),
        "key_expires": "Ela expira em {time}.",
        "no_messages": "Esta solicitação não tem mensagens legíveis.",
        "no_model": "Esta solicitação não indica nenhum modelo.",
        "parameters_omitted": (
            "Omitido das suas solicitações, porque o administrador não permite que usuários o definam: "
            "{names}."
        ),
        "download_address_refused": "o endereço não é permitido",
        "download_unreachable": "não foi possível acessar o servidor",
        "download_refused": "o servidor respondeu com o status {status}",
        "download_broken": "a conexão foi perdida",
        "download_compressed": "o servidor o enviou compactado",
        "download_redirects": "o endereço redireciona vezes demais",
        "download_too_slow": "demorou mais de {seconds:,.0f} segundos",
        "file_not_found": "esse arquivo não existe, ou você não pode lê-lo",
        "file_content_missing": "o armazenamento do Open WebUI não tem mais o conteúdo",
        "file_unreadable": "não foi possível ler o armazenamento do Open WebUI",
        "file_not_stored": "o armazenamento do Open WebUI não aceitou o arquivo",
        "limits_unreadable": (
            "Não é possível conversar: um administrador precisa corrigir a configuração SPENDING_LIMITS da "
            "função, da qual esta parte não pode ser lida: {part}"
        ),
        "limits_unreadable_admin": (
            "Os usuários não podem conversar, porque esta parte da configuração SPENDING_LIMITS da função "
            "não pode ser lida: {part}"
        ),
        "limits_unavailable": (
            "Nada foi enviado: os limites de gastos não podem ser verificados, porque o banco de dados está "
            "indisponível. Tente novamente."
        ),
        "limit_reached": "{whose} de {amount} {period} está esgotado, até: {when}. Nada foi enviado.",
        "limit_near": (
            "{whose} de {amount} {period} está quase esgotado, até: {when}. Chats longos são encurtados "
            "para custar menos."
        ),
        "limit_in_use": (
            "Nada foi enviado: o que resta do limite de gastos está em uso por outras solicitações. Tente "
            "novamente quando elas forem respondidas."
        ),
        "task_of_declined": "Não enviado: a mensagem deste chat também não foi enviada.",
        "limit_waiting": "Resta pouco do limite de gastos; aguardando outras respostas...",
        "limit_of_user": "O seu limite de gastos",
        "limit_of_group": "O limite de gastos do grupo {group}",
        "limit_of_all": "O limite de gastos de todos os usuários",
        "confirm_title": "Enviar por cerca de {cost}?",
        "confirm_cost": (
            "Para esta mensagem, o modelo lê cerca de {tokens:,} tokens, nenhum deles do cache do provedor. "
            "Isso custa cerca de {cost}; a resposta é cobrada à parte. Cancelar não envia nada e não custa "
            "nada."
        ),
        "confirm_cost_cached": (
            "Para esta mensagem, o modelo lê cerca de {tokens:,} tokens, {cached:,} deles do cache do "
            "provedor. Isso custa cerca de {cost}; a resposta é cobrada à parte. Cancelar não envia nada e "
            "não custa nada."
        ),
        "confirm_switch": (
            "{earlier} ainda tem este chat no cache: lá, esta mensagem custa cerca de {cached}. {model} "
            "precisa ler tudo por cerca de {cost}; a resposta é cobrada à parte. Cancelar não envia nada e "
            "não custa nada."
        ),
        "declined": "Não enviado: você não concordou com cerca de {cost}. Nada foi cobrado.",
        "cost_line": "{line}",
        "cost_input": "{tokens:,} tokens de entrada",
        "cost_input_cached": "{tokens:,} tokens de entrada ({cached:,} em cache)",
        "cost_output": "{tokens:,} de saída",
        "cost_seconds": "{seconds:,.1f} s",
        "cost_speed": "{speed:,.0f} tok/s",
        "next_cost": "próxima mensagem a partir de {cost}",
        "next_cost_until": "próxima mensagem a partir de {cached} ({cold} depois de: {when})",
        "tomorrow_at": "amanhã às {clock}",
        "on_day_at": "{day} às {clock}",
        "reasoning_disabled": (
            "O raciocínio não é mantido: o administrador o desativou, seja qual for a sua própria "
            "configuração."
        ),
        "user_limits_not_followed": (
            "Algumas das suas configurações não têm efeito, porque o administrador não permite que usuários "
            "as definam: {names}."
        ),
        "user_valves_lost": (
            "Nada foi enviado, porque algumas das suas configurações não podem ser lidas, entre elas quem "
            "pode manter ou pagar os seus chats: {names}. Defina-as novamente nas suas configurações "
            "(Controles → Configurações) e salve."
        ),
        "user_valves_unreadable": (
            "Algumas das suas configurações não podem ser lidas e não têm efeito: {names}. Defina-as "
            "novamente nas suas configurações (Controles → Configurações)."
        ),
        "valves_not_saved": "Não foi salvo. {problems}.",
        "valves_lost": (
            "Nada foi enviado, porque configurações que protegem os chats ou limitam o custo deles não "
            "podem ser lidas: {names}. Um administrador precisa defini-las novamente nas configurações da "
            "função."
        ),
        "summary_failure_empty": "a resposta do modelo estava vazia",
        "summary_failure_malformed": "a resposta do modelo não tinha a forma esperada",
        "summary_failure_longer_than_its_source": "o resumo era mais longo do que o que ele resume",
        "summary_failure_repeats_its_prompt": "o modelo repetiu as suas instruções",
        "summary_failure_cut_off": "a resposta do modelo foi cortada",
        "summary_failure_calls_a_tool": "o modelo chamou uma ferramenta",
        "summary_failure_reasoning_only": "o modelo só raciocinou e não respondeu",
        "summary_failure_refused": "o modelo recusou",
        "summary_failure_not_grounded": "o resumo continha detalhes que não estão no chat",
        "summary_failure_no_content": "a resposta do modelo não dizia nada",
        "summary_failure_too_short": "o resumo era curto demais",
        "summary_failure_not_about_its_source": "o resumo não tratava do chat",
        "summary_failure_timed_out": "o modelo demorou demais",
        "summary_failure_claimed_elsewhere": "outro processo do servidor já está fazendo isso",
        "summary_failure_database_unavailable": "o banco de dados está indisponível",
        "summary_failure_provider": "o provedor respondeu com um erro",
        "summary_failure_unexpected_error": "erro inesperado",
        "window_too_small": (
            "A janela de contexto do modelo, de {window_tokens:,} tokens, não deixa espaço para nenhuma "
            "entrada."
        ),
        "window_too_small_advice": "Escolha um modelo com janela de contexto maior.",
        "overflow": (
            "Esta solicitação precisa de cerca de {needed_tokens:,} tokens, mas ao lado da resposta só "
            "cabem {limit_tokens:,} na janela de contexto do modelo, que tem {window_tokens:,}."
        ),
        "overflow_largest": "A maior parte que você pode mudar: {largest}, {tokens:,} tokens.",
        "overflow_instructions": (
            "Encurte o prompt do sistema ou escolha um modelo com janela de contexto maior."
        ),
        "overflow_tools": "Desative as ferramentas de que este chat não precisa.",
        "overflow_summaries": "Comece um novo chat.",
        "overflow_retrieved_text": "Anexe menos documentos ou peça menos fontes.",
        "overflow_note": "Comece um novo chat.",
        "overflow_latest_message": "Encurte a sua mensagem ou os anexos dela, ou envie-os em partes.",
        "overflow_current_tool_calls": (
            "Peça menos coisas de uma vez, para que menos ferramentas sejam chamadas."
        ),
        "overflow_earlier_turns": "Comece um novo chat ou escolha um modelo com janela de contexto maior.",
        "turns_omitted": (
            "{count} de {of} mensagens anteriores foram omitidas com as suas respostas: cerca de {tokens:,} "
            "tokens."
        ),
        "turns_omitted.one": (
            "{count} de {of} mensagens anteriores foi omitida com a sua resposta: cerca de {tokens:,} tokens."
        ),
        "turns_clipped": "Só as últimas {count} mensagens deste chat são enviadas ao modelo.",
        "turns_clipped.one": "Só a última mensagem deste chat é enviada ao modelo.",
        "turns_shortened": (
            "{count} de {of} mensagens anteriores foram encurtadas com as suas respostas: cerca de "
            "{tokens:,} tokens a menos."
        ),
        "turns_shortened.one": (
            "{count} de {of} mensagens anteriores foi encurtada com a sua resposta: cerca de {tokens:,} "
            "tokens a menos."
        ),
        "results_stated": (
            "{count} resultados de ferramentas foram reduzidos aos dados principais: cerca de {tokens:,} "
            "tokens a menos."
        ),
        "results_stated.one": (
            "{count} resultado de ferramenta foi reduzido aos dados principais: cerca de {tokens:,} tokens "
            "a menos."
        ),
        "results_capped": (
            "{count} resultados longos de ferramentas foram reduzidos ao começo e ao fim: cerca de "
            "{tokens:,} tokens a menos."
        ),
        "results_capped.one": (
            "{count} resultado longo de ferramenta foi reduzido ao começo e ao fim: cerca de {tokens:,} "
            "tokens a menos."
        ),
        "retrieved_cut": (
            "Do texto recuperado ficou só o começo: cerca de {tokens:,} dos seus {of:,} tokens foram "
            "omitidos."
        ),
        "retrieved_omitted": "O texto recuperado foi omitido: cerca de {tokens:,} tokens.",
        "tools_omitted": (
            "{count} ferramentas integradas do Open WebUI foram omitidas para caber na janela de contexto "
            "do modelo: cerca de {tokens:,} tokens. Um administrador pode desativá-las para este modelo."
        ),
        "tools_omitted.one": (
            "{count} ferramenta integrada do Open WebUI foi omitida para caber na janela de contexto do "
            "modelo: cerca de {tokens:,} tokens. Um administrador pode desativá-la para este modelo."
        ),
        "summarizing": "Resumindo o chat ({tokens:,} tokens)...",
        "summarized": "Resumido: {before_tokens:,} → {after_tokens:,} tokens",
        "summarized_cost": "{line} ({cost})",
        "summarized_partly": "{line}; uma parte não pôde ser resumida: {reason}.",
        "not_summarized": "O chat não pôde ser resumido: {reason}.",
        "help_title": (
            "Escreva um destes comandos sozinho em uma mensagem. Ele é respondido aqui, sem modelo, "
            "e nenhum modelo o vê."
        ),
        "help_context": "`/context`: de que se compõe a próxima solicitação e quanto este chat custou.",
        "help_compact": (
            "`/compact`, ou `/compact what to keep` (o que manter): resume agora tudo menos as últimas "
            "mensagens; é o único comando que custa algo."
        ),
        "help_restore": (
            "`/restore`, ou `/restore 3-8`: volta a enviar mensagens anteriores palavra por palavra."
        ),
        "help_discard": (
            "`/discard`, ou `/discard 3-8`: faz com que os resumos de mensagens anteriores sejam escritos "
            "de novo."
        ),
        "help_aim": (
            "`/aim faithful` envia tudo o que couber do chat, `/aim thrifty` o que custa menos; a partir de "
            "agora, neste chat."
        ),
        "help_aim_now": "Este chat é enviado com o objetivo `{aim}`.",
        "help_drawing": (
            "Este modelo só desenha: `/compact` precisa de outro modelo na configuração SUMMARY_MODEL, e os "
            "outros comandos valem."
        ),
        "command_misused": "`/{name}` não pode ser usado assim. {usage}",
        "aim_set": "A partir de agora, este chat segue o objetivo `{aim}`.",
        "aim_kept": "Este chat já segue o objetivo `{aim}`.",
        "compact_waiting": "{line} Isso leva até {seconds:.0f} segundos.",
        "compact_done": (
            "As primeiras {count} mensagens foram resumidas com as suas respostas: a próxima solicitação "
            "tem cerca de {after:,} tokens em vez de {before:,}."
        ),
        "compact_done.one": (
            "A primeira mensagem foi resumida com a sua resposta: a próxima solicitação tem cerca de "
            "{after:,} tokens em vez de {before:,}."
        ),
        "compact_done_again": (
            "As primeiras {count} mensagens foram resumidas com as suas respostas: a próxima "
            "solicitação tem cerca de {after:,} tokens."
        ),
        "compact_done_again.one": (
            "A primeira mensagem foi resumida com a sua resposta: a próxima solicitação tem cerca de "
            "{after:,} tokens."
        ),
        "compact_cost": "Os resumos custaram {cost}.",
        "compact_kept": "Os resumos já existiam e não custaram nada.",
        "compact_failed": (
            "O resumo não foi escrito: {reason}. A próxima mensagem tentará novamente; `/restore` desfaz o "
            "comando."
        ),
        "compact_too_short": (
            "Nada foi resumido: o que vem antes das últimas mensagens é curto demais ou já está resumido."
        ),
        "compact_off": (
            "Nada foi resumido: os resumos estão desativados aqui. Um administrador pode definir a "
            "configuração CONTEXT_STRATEGY como `summarize`."
        ),
        "restored": (
            "A partir de agora enviadas de novo palavra por palavra: mensagens {turns}. Uma solicitação tem "
            "então cerca de {after:,} tokens em vez de {before:,}."
        ),
        "restored_partly": "Ao lado delas não há espaço para as mensagens {turns}.",
        "restore_nothing": "Todas essas mensagens já são enviadas palavra por palavra.",
        "restore_no_room": (
            "Não há espaço para as mensagens {turns} palavra por palavra. Indique menos, ou escolha "
            "um modelo com uma janela maior."
        ),
        "no_such_turns": "Este chat não tem essas mensagens: ele tem {turns}.",
        "discarded": "{count} resumos foram descartados. Com a próxima mensagem eles serão escritos de novo.",
        "discarded.one": "{count} resumo foi descartado. Com a próxima mensagem ele será escrito de novo.",
        "discard_nothing": "Nenhum resumo substitui essas mensagens.",
        "context_title": "A próxima solicitação a {model}",
        "context_window": (
            "Cerca de {tokens:,} de {window_tokens:,} tokens, {share:.0%} da janela de contexto."
        ),
        "context_window_unknown": (
            "Cerca de {tokens:,} tokens; não se sabe o tamanho da janela de contexto do modelo."
        ),
        "context_aim_faithful": "O objetivo é `faithful`: é enviado tudo o que couber do chat.",
        "context_aim_thrifty": "O objetivo é `thrifty`: é enviado o que custa menos.",
        "context_part": "Parte",
        "context_tokens": "Tokens",
        "context_share": "Proporção",
        "context_part_system": "Prompt do sistema e fontes",
        "context_part_tools": "Ferramentas",
        "context_part_summaries": "Resumos",
        "context_part_shortened": "Mensagens encurtadas",
        "context_part_recalled": "Trechos consultados",
        "context_part_verbatim": "Mensagens palavra por palavra",
        "context_part_attachments": "Anexos",
        "context_part_reserve": "Reservado para a resposta",
        "context_turn": "Mensagem",
        "context_wrote": "O que você escreveu",
        "context_sent": "Enviado",
        "context_original": "De",
        "context_state": "Estado",
        "context_cached": "Em cache",
        "context_state_verbatim": "palavra por palavra",
        "context_state_shortened": "encurtada",
        "context_state_summarized": "resumida",
        "context_state_dropped": "omitida",
        "context_yes": "sim",
        "context_no": "não",
        "context_earlier_turns": "{count} mensagens anteriores",
        "context_earlier_turns.one": "{count} mensagem anterior",
        "context_cost": "Este chat custou {cost} até agora, em {count} solicitações.",
        "context_cost.one": "Este chat custou {cost} até agora, em {count} solicitação.",
        "context_read": "{share:.0%} da entrada foi lido do cache do provedor, por {cost}.",
        "context_saved": "Enviar o chat inteiro sem cache teria custado {cost} a mais.",
        "context_breaks": "O que fez o provedor ler o chat de novo, o mais recente primeiro:",
        "context_break_turn": "mensagem {turn}",
        "context_break_start": "antes da primeira mensagem",
        "context_cause_retention": "resultados antigos de ferramentas foram encurtados",
        "context_cause_clip": "só as últimas mensagens são enviadas",
        "context_cause_summary": "mensagens antigas foram resumidas",
        "context_cause_prune": "mensagens antigas foram encurtadas",
        "context_cause_evict": "mensagens antigas foram omitidas",
        "context_cause_recall": "foi adicionada a ferramenta que consulta o que foi removido",
        "context_cause_restore": "mensagens foram restauradas, ou não cabiam mais",
        "context_cause_discard": "resumos foram descartados",
        "context_cause_clock": "uma hora ou um número no prompt do sistema mudou",
        "context_cause_memory": "as memórias do Open WebUI mudaram",
        "context_cause_prompt": "o prompt do sistema mudou",
        "context_cause_tools": "as ferramentas mudaram",
        "context_cause_settings": "um parâmetro mudou",
        "context_cause_reasoning": "o raciocínio de respostas anteriores mudou",
        "context_cause_results": "resultados anteriores de ferramentas mudaram",
        "context_cause_attachments": "anexos anteriores mudaram",
        "context_cause_sources": "o texto recuperado mudou",
        "context_cause_edit": "mensagens anteriores foram alteradas",
        "context_cause_plan": "mensagens anteriores são encurtadas de modo diferente de antes",
        "context_cause_unknown": "o motivo não é conhecido",
        "context_summary": (
            "Resumo das mensagens {first} a {last}: {tokens:,} tokens em vez de {source_tokens:,}"
        ),
        "context_summary_missing": "Com a próxima mensagem, as mensagens {first} a {last} serão resumidas.",
        "context_as_text": "O mesmo em texto",
        "context_hint": (
            "`/restore 3-8` volta a enviar mensagens palavra por palavra, `/discard 3-8` faz com que o "
            "resumo delas seja escrito de novo; `/help` mostra todos os comandos."
        ),
        "context_hint_help": "`/help` mostra todos os comandos.",
        "context_page_language": "pt-BR",
        "context_page_number": "{number:,}",
        "context_page_share": "{share:.1%}",
        "context_page_amount": "{amount}",
        "context_page_over": "{count:,} tokens a mais do que cabem na janela de contexto.",
        "context_page_over.one": "{count:,} token a mais do que cabe na janela de contexto.",
        "context_page_free": "Livre",
        "context_page_turns": "Mensagens, em tokens",
        "context_page_no_turns": "Este chat ainda não tem mensagens.",
        "context_page_cost": "Custo",
        "context_page_breaks": "O que quebrou o cache",
        "context_page_no_breaks": "Nada até agora.",
        "context_page_cause": "Motivo",
        "context_page_planned": "Previsto",
        "context_page_uncounted": "não contado",
        "context_page_summaries": "Resumos",
        "context_page_summary": "Mensagens {first} a {last}",
        "context_page_summary_of_turn": "Mensagem {turn}",
        "context_page_summary_size": "{tokens:,} tokens em vez de {source_tokens:,}",
        "context_page_restore": "Restaurar",
        "context_page_discard": "Descartar",
        "context_page_commands": (
            "“Restaurar” volta a enviar essas mensagens palavra por palavra, “Descartar” faz com que o "
            "resumo seja escrito de novo. Você também pode digitar `{restore}` ou `{discard}`."
        ),
    }
)
PORTUGUESE: Final = Language(
    "pt",
    _LINES,
    decimal=",",
    thousands=".",
    one=frozenset({0, 1}),
    day="{day} de {month}",
    months=(
        *("janeiro", "fevereiro", "março", "abril", "maio", "junho", "julho"),
        *("agosto", "setembro", "outubro", "novembro", "dezembro"),
    ),
)
